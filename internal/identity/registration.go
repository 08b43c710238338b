package identity

import (
	"errors"

	"certharbor.dev/certharbor/internal/fault"
)

// RegistrationMode says what becomes of a person who has no account and asks
// for one, by whatever door: by mail, through a provider or with a wallet.
type RegistrationMode string

// The modes. The zero value is RegistrationClosed.
const (
	RegistrationClosed   RegistrationMode = "closed"   // administrators alone make users
	RegistrationApproval RegistrationMode = "approval" // the user waits for an administrator
	RegistrationOpen     RegistrationMode = "open"
)

// ParseRegistration reads the setting; "" is closed.
func ParseRegistration(text string) (RegistrationMode, error) {
	switch mode := RegistrationMode(text); mode {
	case "":
		return RegistrationClosed, nil
	case RegistrationClosed, RegistrationApproval, RegistrationOpen:
		return mode, nil
	}
	return RegistrationClosed, errors.New("must be closed, approval or open")
}

// Registration is the mode of the server.
func (s *Service) Registration() RegistrationMode { return s.registration }

// admits refuses (5022 REGISTRATION_CLOSED) when no new user may come in.
func (m RegistrationMode) admits() error {
	if m == RegistrationOpen || m == RegistrationApproval {
		return nil
	}
	f := fault.Forbidden("Registration is closed at this server; an administrator makes the accounts.")
	f.Key = "REGISTRATION_CLOSED"
	return f
}

// status is that of a user whose address or account elsewhere is proved.
func (m RegistrationMode) status() Status {
	if m == RegistrationOpen {
		return StatusActive
	}
	return StatusPending
}
