// Package pfx writes PKCS#12 stores (RFC 7292) of one private key and its chain,
// with a friendly name on key and leaf, which the PKCS#12 library that this
// project otherwise uses cannot set.
//
// Keys and certificates are encrypted with PBES2 (RFC 8018): PBKDF2 with
// HMAC-SHA-256, AES-256-CBC. The store is authenticated with HMAC-SHA-256 under
// the key derivation of RFC 7292 appendix B. OpenSSL 1.1.1 and later, Java 8u301
// and later, and Windows since Server 2019 read it.
package pfx
