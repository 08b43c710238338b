// Package material turns what the server sends for a certificate or a CA into
// the files an install item may name (wire.md 7.2): it opens the sealed private
// key with the device's own key, checks that key and leaf belong together, and
// encodes PEM, DER and PKCS#12. It does no I/O.
package material
