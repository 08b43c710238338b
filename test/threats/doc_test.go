// Package threats_test attacks the whole program: other tenants, hostile authorities, receivers and devices, secrets that leak.
package threats_test
