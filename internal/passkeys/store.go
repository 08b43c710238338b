package passkeys

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"certharbor.dev/certharbor/internal/sqldb"
)

// handleSize is the most that authenticators store, in bytes.
const handleSize = 64

// handle gives the user's handle; the first time it is made. It is random, so
// that an authenticator that is found says nothing about the account.
func handle(ctx context.Context, tx *sqldb.Tx, userID int64) ([]byte, error) {
	fresh := make([]byte, handleSize)
	_, _ = rand.Read(fresh) // never fails, see crypto/rand
	if err := New(tx).insertHandle(ctx, insertHandleParams{UserID: userID, Handle: fresh}); err != nil {
		return nil, fmt.Errorf("make a user handle: %w", err)
	}
	kept, err := New(tx).handleOf(ctx, userID)
	if err != nil {
		return nil, fmt.Errorf("read a user handle: %w", err)
	}
	return kept, nil
}

// person is a user as go-webauthn wants to see it: with the one credential that
// is being looked at.
type person struct {
	handle     []byte
	credential []webauthn.Credential
}

// WebAuthnID implements webauthn.User.
func (p person) WebAuthnID() []byte { return p.handle }

// WebAuthnName implements webauthn.User.
func (p person) WebAuthnName() string { return "" }

// WebAuthnDisplayName implements webauthn.User.
func (p person) WebAuthnDisplayName() string { return "" }

// WebAuthnCredentials implements webauthn.User.
func (p person) WebAuthnCredentials() []webauthn.Credential { return p.credential }

func (r passkeyRow) authenticatorFlags() protocol.AuthenticatorFlags {
	return protocol.AuthenticatorFlags(uint8(r.Flags & 0xff)) //nolint:gosec // one byte, masked
}

func (r passkeyRow) credential() webauthn.Credential {
	return webauthn.Credential{
		ID: r.CredentialID, PublicKey: r.PublicKey, Flags: webauthn.NewCredentialFlags(r.authenticatorFlags()),
		Authenticator: webauthn.Authenticator{SignCount: uint32(r.SignCount & 0xffffffff)}, //nolint:gosec // four bytes, masked
	}
}

func (r passkeyRow) transports() []string {
	var hints []string
	if json.Unmarshal([]byte(r.Transports), &hints) != nil || hints == nil {
		return []string{} // hints only: a browser does without
	}
	return hints
}

func (r passkeyRow) passkey() Passkey {
	return Passkey{
		ID: r.ID, Name: r.Name, CredentialID: encode(r.CredentialID), Algorithm: algorithmName(r.Algorithm), AAGUID: r.Aaguid,
		Transports: r.transports(), Synced: r.authenticatorFlags().HasBackupState(), CloneWarning: r.CloneWarning,
		CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt,
	}
}

func object(id int64) string { return fmt.Sprintf("passkey %d", id) }
