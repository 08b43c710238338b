package identity

import (
	netmail "net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

// Status says whether a user may sign in.
type Status string

// The states of a user.
const (
	StatusInactive Status = "INACTIVE" // the e-mail address is not confirmed
	StatusPending  Status = "PENDING"  // waits for an administrator
	StatusActive   Status = "ACTIVE"
	StatusDisabled Status = "DISABLED" // by an administrator
)

// RoleAdmin is the role of administrators.
const RoleAdmin = access.RoleAdmin

// User is a person's account, without the password.
type User struct {
	ID                 int64    `json:"id"`
	Email              string   `json:"email"`
	Name               string   `json:"name"`
	Roles              []string `json:"roles"`
	CountryOfResidence string   `json:"country_of_residence"`
	Status             Status   `json:"status"`
	CreatedAt          int64    `json:"created_at" doc:"Unix ms"`
	UpdatedAt          int64    `json:"updated_at" doc:"Unix ms"`

	invited bool // by an administrator
}

const (
	maxEmail    = 254 // RFC 5321 section 4.5.3.1.3, less the angle brackets
	maxPassword = 1024
)

// NormalizeEmail returns the form in which an e-mail address is stored and
// compared: without surrounding space, in lower case. What is not a bare
// address (RFC 5322 addr-spec) is refused with 5000.
func NormalizeEmail(email string) (string, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	if email == "" {
		return "", fault.Invalid("email", "is required")
	}
	if len(email) > maxEmail {
		return "", fault.Invalid("email", "is longer than %d bytes", maxEmail)
	}
	parsed, err := netmail.ParseAddress(email)
	if err != nil || parsed.Address != email || strings.IndexFunc(email, unicode.IsControl) >= 0 {
		return "", fault.Invalid("email", "must be an e-mail address such as name@example.org")
	}
	return email, nil
}

// CheckUserName refuses (5000) a user name that is not 3 to 64 of A–Z, a–z,
// 0–9, ".", "_" and "-" (wire.md section 3).
func CheckUserName(name string) error {
	if len(name) < 3 || len(name) > 64 || strings.IndexFunc(name, notInUserName) >= 0 {
		return fault.Invalid("name", "must be 3 to 64 of the characters A-Z a-z 0-9 . _ -")
	}
	return nil
}

func notInUserName(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		return false
	}
	return true
}

// CheckNewPassword refuses (5000) a password that nobody may choose: fewer than
// 12 characters, or without an upper-case letter, a lower-case letter, a digit
// or another character (wire.md section 3). field is named in the refusal.
func CheckNewPassword(field, password string) error {
	if len(password) > maxPassword {
		return fault.Invalid(field, "must be at most %d bytes", maxPassword)
	}
	var upper, lower, digit, other bool
	for _, r := range password {
		switch {
		case unicode.IsUpper(r):
			upper = true
		case unicode.IsLower(r):
			lower = true
		case unicode.IsDigit(r):
			digit = true
		default:
			other = true
		}
	}
	if utf8.RuneCountInString(password) < 12 || !upper || !lower || !digit || !other {
		return fault.Invalid(field, "must have 12 or more characters, among them an upper-case letter, a lower-case letter, a digit and another character")
	}
	return nil
}
