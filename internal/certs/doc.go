// Package certs owns certificate records: their names, keys, chains, custody
// policy, renewal time and exports.
//
// A record is NEW until its first issuance succeeds, then ACTIVE, EXPIRED once
// its leaf's not_after has passed, or REVOKED. Issuances themselves belong to
// package issuance.
//
// Rules without I/O stand in files of their own: names.go (what may be ordered),
// keys.go and csr.go (key strength, signing requests), chain.go (PEM chains),
// policy.go (who may receive a private key), renewal.go (when to renew) and
// export.go (archives and key stores).
package certs
