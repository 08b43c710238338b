package passkeys

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// acr is the level that a passkey gives (decisions.md section 2).
const acr = "aal2"

// maxReason is the length of a reason in the audit log, in bytes.
const maxReason = 300

// ceremony is the check of one assertion.
type ceremony struct {
	purpose purpose
	boundTo string
	userID  int64  // whose passkey it must be, 0: anybody's
	refusal string // the action in the audit log
}

// proof is the outcome of a ceremony: whose passkey was used, or why not.
type proof struct {
	userID  int64
	method  identity.Method
	refused string // why, "": not refused
}

// assert uses up the challenge, verifies the assertion and advances the passkey.
// A refusal is a proof with a reason and is to be committed: the challenge is
// gone, the audit log has it, and a passkey whose counter went back carries a
// warning. Errors are those of the database.
func (s *Service) assert(ctx context.Context, tx *sqldb.Tx, c ceremony, parsed *protocol.ParsedCredentialAssertionData) (proof, error) {
	good, err := s.use(ctx, tx, parsed.Response.CollectedClientData.Challenge, c.purpose, c.boundTo)
	if err != nil {
		return proof{}, err
	}
	if !good { // nobody knows whom this concerns, and it costs too little to fill a log with
		return proof{refused: "the challenge is unknown, used or late"}, nil
	}
	r, err := New(tx).lockPasskey(ctx, parsed.RawID)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return s.refuse(ctx, tx, c, passkeyRow{UserID: c.userID}, "the passkey is unknown")
	}
	if err != nil {
		return proof{}, fmt.Errorf("read a passkey: %w", err)
	}
	if c.userID != 0 && r.UserID != c.userID {
		return s.refuse(ctx, tx, c, passkeyRow{UserID: c.userID}, "the passkey is another user's")
	}
	// Nobody said before who signs in, so the authenticator must (Web
	// Authentication Level 2, section 7.2 step 6).
	if c.userID == 0 && len(parsed.Response.UserHandle) == 0 {
		return s.refuse(ctx, tx, c, r, "the user handle is missing")
	}
	handle, err := New(tx).handleOf(ctx, r.UserID)
	if err != nil {
		return proof{}, fmt.Errorf("read a user handle: %w", err)
	}
	verified, err := s.verify(r, handle, parsed)
	if err != nil {
		return s.refuse(ctx, tx, c, r, reason(err))
	}
	if verified.Authenticator.CloneWarning {
		return s.regressed(ctx, tx, c, r, parsed.Response.AuthenticatorData.Counter)
	}
	flags := parsed.Response.AuthenticatorData.Flags
	err = New(tx).usedPasskey(ctx, usedPasskeyParams{
		SignCount: int64(verified.Authenticator.SignCount), Flags: int64(verified.Flags.ProtocolValue()), LastUsedAt: s.now().UnixMilli(), ID: r.ID,
	})
	if err != nil {
		return proof{}, fmt.Errorf("advance a passkey: %w", err)
	}
	return proof{userID: r.UserID, method: identity.Method{AMR: methods(flags), ACR: acr}}, nil
}

// verify asks go-webauthn about everything of section 7.2: type, challenge,
// origin, relying party, presence, user verification, handle and signature. The
// counter it only compares: see CloneWarning.
func (s *Service) verify(r passkeyRow, handle []byte, parsed *protocol.ParsedCredentialAssertionData) (*webauthn.Credential, error) {
	session := webauthn.SessionData{
		Challenge: parsed.Response.CollectedClientData.Challenge, // its digest was found
		UserID:    handle, UserVerification: protocol.VerificationRequired,
	}
	return s.library.ValidateLogin(person{handle, []webauthn.Credential{r.credential()}}, session, parsed)
}

// reason is what go-webauthn found wrong, for the log and the audit log alone:
// it may quote the origin that a browser named.
func reason(err error) string {
	text := err.Error()
	if found, ok := errors.AsType[*protocol.Error](err); ok && found.DevInfo != "" {
		text = found.Details + ": " + found.DevInfo
	}
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.ToValidUTF8(text, "")
}

// regressed refuses a passkey whose counter did not grow: somebody may have a
// copy of its key. The owner sees the warning; the passkey that is ahead goes on
// working (Web Authentication Level 2, section 6.1.1).
func (s *Service) regressed(ctx context.Context, tx *sqldb.Tx, c ceremony, r passkeyRow, counter uint32) (proof, error) {
	if err := New(tx).warnOfClone(ctx, r.ID); err != nil {
		return proof{}, fmt.Errorf("mark a passkey: %w", err)
	}
	s.log.WarnContext(ctx, "the signature counter of a passkey went back", "user_id", r.UserID, "passkey_id", r.ID, "stored", r.SignCount, "presented", counter)
	err := s.audit.Record(ctx, tx, audit.Entry{
		UserID: r.UserID, Action: "passkey.clone_suspected", Object: object(r.ID),
		Detail: map[string]any{"stored": r.SignCount, "presented": counter, "ip": web.ClientIP(ctx)},
	})
	if err != nil {
		return proof{}, err
	}
	return s.refuse(ctx, tx, c, r, "the signature counter went back")
}

func (s *Service) refuse(ctx context.Context, tx *sqldb.Tx, c ceremony, r passkeyRow, reason string) (proof, error) {
	about := fmt.Sprintf("user %d", r.UserID)
	if r.ID != 0 {
		about = object(r.ID)
	}
	return proof{refused: reason}, s.audit.Record(ctx, tx, audit.Entry{
		UserID: r.UserID, Action: c.refusal, Object: about,
		Detail: map[string]any{"reason": reason, "ip": web.ClientIP(ctx)},
	})
}
