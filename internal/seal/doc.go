// Package seal is the one place that encrypts. It owns the master keys, the
// format of every secret at rest, the sealed boxes in which devices receive
// private keys, and the making and hashing of bearer tokens.
//
// # Secrets at rest
//
// A secret reaches a table only as a blob made by [Keyring.Seal]: AES-256-GCM
// under a fresh data key, the data key wrapped by a master key, both bound to
// table, row and column. A blob that is copied to another row, or read under
// another master key, does not open.
//
//	offset  bytes  what
//	0       1      format version, 1
//	1       8      id of the master key that wraps the data key
//	9       16     digest of the place, so that a misplaced blob is told from a broken one
//	25      60     data key: nonce 12, AES-256-GCM ciphertext 32, tag 16
//	85      12+n+16  secret: nonce, AES-256-GCM ciphertext, tag
//
// # Device custody
//
// A certificate's private key is encrypted once under its own data key; the
// data key is wrapped for the server by [Keyring.Seal] and for each device by
// [WrapForDevice], as libsodium's crypto_box_seal does, so that devices open it
// with any NaCl library.
package seal
