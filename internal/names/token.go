package names

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// recordLabel is where the record of a name stands.
const recordLabel = "_certharbor."

// TXTRecord is the TXT record that shows that a name is a user's.
type TXTRecord struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// tokenBytes of the code are more than anybody can find twice.
const tokenBytes = 24

// record is that of the user for the name. The value is always the same: it is
// no secret, but nobody can make it for another server or user.
func (s *Service) record(userID int64, name string) TXTRecord {
	mac := hmac.New(sha256.New, s.key)
	_, _ = fmt.Fprintf(mac, "user %d name %s", userID, base(name))
	return TXTRecord{Name: recordLabel + base(name), Value: base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:tokenBytes])}
}

// openKey reads the key of the records, which the first node makes for all.
func openKey(ctx context.Context, d Deps) ([]byte, error) {
	place := seal.Place{Table: "name_keys", Row: 1, Column: "key_sealed"}
	sealed, err := New(d.DB.Reader()).readKey(ctx, 1)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		var fresh []byte
		if fresh, err = d.Keys.Seal(place, seal.NewDataKey()); err != nil {
			return nil, fmt.Errorf("seal the key of records: %w", err)
		}
		err = d.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
			if err := New(tx).insertKey(ctx, insertKeyParams{ID: 1, KeySealed: fresh, CreatedAt: d.Now().UnixMilli()}); err != nil {
				return err
			}
			sealed, err = New(tx).readKey(ctx, 1) // another node may have been faster
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of records: %w", err)
	}
	key, err := d.Keys.Open(place, sealed)
	if err != nil {
		return nil, fmt.Errorf("open the key of records: %w", err)
	}
	return key, nil
}
