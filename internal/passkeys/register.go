package passkeys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// RegisterOptions begins to add a passkey for the caller. Errors: 5034 without a
// fresh proof, 5030 when the user has as many as are allowed or the server's
// address allows none, 5013 for too many challenges.
func (s *Service) RegisterOptions(ctx context.Context) (CreationOptions, error) {
	if err := s.available(); err != nil {
		return CreationOptions{}, err
	}
	caller := access.From(ctx)
	user, err := s.identity.User(ctx, caller.UserID)
	if err != nil {
		return CreationOptions{}, err
	}
	var options CreationOptions
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.identity.RequireStepUp(ctx, tx); err != nil {
			return err
		}
		existing, err := New(tx).passkeysOf(ctx, caller.UserID)
		if err != nil {
			return fmt.Errorf("list passkeys: %w", err)
		}
		if len(existing) >= MaxPerUser {
			return errTooMany()
		}
		handle, err := handle(ctx, tx, caller.UserID)
		if err != nil {
			return err
		}
		challenge, err := s.newChallenge(ctx, tx, toRegister, sessionBinding(caller), s.hitOfUser(caller.UserID))
		if err != nil {
			return err
		}
		options = s.rp.creation(user, handle, challenge, existing)
		return nil
	})
	return options, err
}

func errTooMany() error {
	return fault.Conflict("An account has at most %d passkeys; remove one first.", MaxPerUser)
}

var errRegistration = fault.Invalid("response", "could not be verified; ask for new options and try again")

// Add adds the passkey that the browser made of RegisterOptions. Errors:
// 5000 when it cannot be verified, the challenge used up or late, 5030 when it is
// registered already, and those of RegisterOptions.
func (s *Service) Add(ctx context.Context, body *CreatedCredential) (Passkey, error) {
	name, err := cleanName(body.Name)
	if err != nil {
		return Passkey{}, err
	}
	parsed, err := body.parse()
	if err != nil {
		return Passkey{}, err
	}
	if err := s.available(); err != nil {
		return Passkey{}, err
	}
	caller := access.From(ctx)
	var made Passkey
	var refused error // is committed: the challenge stays used
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		made, refused = Passkey{}, nil
		if err := s.identity.RequireStepUp(ctx, tx); err != nil {
			return err
		}
		good, err := s.use(ctx, tx, parsed.Response.CollectedClientData.Challenge, toRegister, sessionBinding(caller))
		if err != nil {
			return err
		}
		if !good {
			refused = errRegistration
			return nil
		}
		handle, err := handle(ctx, tx, caller.UserID)
		if err != nil {
			return err
		}
		r, refusal := s.attested(parsed, handle)
		if refusal != nil {
			refused = refusal
			return nil //nolint:nilerr // committed: the challenge stays used
		}
		r.UserID, r.Name = caller.UserID, name
		if refused, err = s.insert(ctx, tx, &r); refused == nil && err == nil {
			made = r.passkey()
		}
		return err
	})
	if err == nil {
		err = refused
	}
	return made, err
}

// attested verifies what the authenticator made and gives the row for it, still
// without owner and name (section 7.1). A refusal is 5000.
func (s *Service) attested(parsed *protocol.ParsedCredentialCreationData, handle []byte) (passkeyRow, *fault.Error) {
	format := parsed.Response.AttestationObject.Format
	if format != none && format != string(protocol.AttestationFormatPacked) {
		// None was asked for. Browsers may pass on what a key signed with itself;
		// the others only enlarge what foreign bytes can reach.
		return passkeyRow{}, fault.Invalid("response", "holds an attestation of a kind that was not asked for")
	}
	session := webauthn.SessionData{
		Challenge: parsed.Response.CollectedClientData.Challenge, // its digest was found
		UserID:    handle, UserVerification: protocol.VerificationRequired,
	}
	for _, algorithm := range algorithms {
		session.CredParams = append(session.CredParams, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: algorithm})
	}
	credential, err := s.library.CreateCredential(person{handle: handle}, session, parsed)
	if err != nil {
		return passkeyRow{}, fault.Invalid("response", "could not be verified; ask for new options and try again").Because(errors.New(reason(err)))
	}
	algorithm, err := checkKey(credential.PublicKey)
	if err != nil {
		return passkeyRow{}, fault.Invalid("response", "holds a key that is not accepted: %s", err).Because(err)
	}
	hints, err := json.Marshal(cleanTransports(parsed.Raw.AttestationResponse.Transports))
	if err != nil {
		return passkeyRow{}, fault.Invalid("response.transports", "cannot be stored").Because(err)
	}
	model, err := uuid.FromBytes(credential.Authenticator.AAGUID)
	if err != nil {
		return passkeyRow{}, fault.Invalid("response", "holds an AAGUID that is not 16 bytes").Because(err)
	}
	return passkeyRow{
		CredentialID: credential.ID, PublicKey: credential.PublicKey, Algorithm: algorithm, Aaguid: model.String(),
		Transports: string(hints), Flags: int64(credential.Flags.ProtocolValue()), SignCount: int64(credential.Authenticator.SignCount),
	}, nil
}

// insert stores the passkey. refused says why not.
func (s *Service) insert(ctx context.Context, tx *sqldb.Tx, r *passkeyRow) (refused, err error) {
	// Of several that are added at once each counts the others.
	if _, err := New(tx).lockUser(ctx, r.UserID); err != nil {
		return nil, fmt.Errorf("lock a user: %w", err)
	}
	n, err := New(tx).countPasskeys(ctx, r.UserID)
	if err != nil {
		return nil, fmt.Errorf("count passkeys: %w", err)
	}
	if n >= MaxPerUser {
		return errTooMany(), nil
	}
	r.CreatedAt = s.now().UnixMilli()
	r.ID, err = New(tx).insertPasskey(ctx, insertPasskeyParams{
		UserID: r.UserID, CredentialID: r.CredentialID, PublicKey: r.PublicKey, Algorithm: r.Algorithm, Name: r.Name, Aaguid: r.Aaguid,
		Transports: r.Transports, Flags: r.Flags, SignCount: r.SignCount, CreatedAt: r.CreatedAt,
	})
	if sqldb.Is(err, sqldb.ErrNotFound) { // left out by ON CONFLICT, whoever has it
		return fault.Conflict("This passkey is registered already."), nil
	}
	if err != nil {
		return nil, fmt.Errorf("store a passkey: %w", err)
	}
	if err := s.identity.TellWayIn(ctx, tx, r.UserID, "A passkey was added", r.Name); err != nil {
		return nil, err
	}
	return nil, s.audit.Record(ctx, tx, audit.Entry{
		UserID: r.UserID, Action: "passkey.add", Object: object(r.ID),
		Detail: map[string]any{"name": r.Name, "algorithm": algorithmName(r.Algorithm), "aaguid": r.Aaguid},
	})
}
