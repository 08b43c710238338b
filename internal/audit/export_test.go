package audit

import "certharbor.dev/certharbor/internal/seal"

// WriteStamp writes an empty stamp under the keys.
func WriteStamp(keys *seal.Keyring, path string) error { return (&stamp{}).write(keys, path) }
