package apikeys

import (
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/fault"
)

const (
	tokenPrefix = "ak_"
	tokenBytes  = 32                    // of randomness
	tokenLength = len(tokenPrefix) + 43 // base64url of tokenBytes
	shownLength = 8                     // of the token's characters, to tell keys apart
	maxLifetime = 315360000             // seconds: ten years of 365 days
	maxName     = 200                   // characters
)

// APIKey is the record of a key. It does not hold the token.
type APIKey struct {
	ID               int64        `json:"id"`
	UserID           int64        `json:"user_id"`
	Name             string       `json:"name"`
	Prefix           string       `json:"prefix" doc:"The first 8 characters of the token."`
	Permissions      []Permission `json:"permissions" nullable:"false"`
	ExpiresInSeconds int64        `json:"expires_in_seconds" doc:"As asked for at creation; see expires_at."`
	CreatedAt        int64        `json:"created_at" doc:"Unix milliseconds."`
	UpdatedAt        int64        `json:"updated_at" doc:"Unix milliseconds."`
	ExpiresAt        int64        `json:"expires_at" doc:"Unix milliseconds; the key is refused from then on."`
	LastUsedAt       int64        `json:"last_used_at" doc:"Unix milliseconds, to about a minute; 0: never."`
}

// CreatedKey is the answer to a creation, the only one that holds the token.
type CreatedKey struct {
	APIKey
	Token string `json:"token" doc:"The bearer secret. It is shown this once."`
}

// NewKey is what a new key is made of.
type NewKey struct {
	Name             string       `json:"name" minLength:"1" maxLength:"200" doc:"A label for people."`
	ExpiresInSeconds int64        `json:"expires_in_seconds" minimum:"1" maximum:"315360000" doc:"The lifetime of the key."`
	Permissions      []Permission `json:"permissions" nullable:"false" minItems:"1" maxItems:"100"`
}

// check returns the draft in the form that is stored.
func (d NewKey) check() (NewKey, error) {
	var err error
	if d.Name, err = checkName(d.Name); err != nil {
		return d, err
	}
	if d.ExpiresInSeconds < 1 || d.ExpiresInSeconds > maxLifetime {
		return d, fault.Invalid("expires_in_seconds", "must be 1 to %d", maxLifetime)
	}
	d.Permissions, err = normalise(d.Permissions)
	return d, err
}

// expiry is when a key that is made now ends, Unix ms.
func (d NewKey) expiry(now time.Time) int64 { return now.UnixMilli() + d.ExpiresInSeconds*1000 }

// KeyChange is what a PATCH sets; nil leaves a member as it is.
type KeyChange struct {
	Name        *string      `json:"name,omitempty" minLength:"1" maxLength:"200"`
	Permissions []Permission `json:"permissions,omitempty" nullable:"false" minItems:"1" maxItems:"100" doc:"All permissions of the key from now on."`
}

func (c KeyChange) check() (KeyChange, error) {
	if c.Name == nil && c.Permissions == nil {
		return c, fault.Invalid("body", "must hold permissions, name or both")
	}
	if c.Name != nil {
		name, err := checkName(*c.Name)
		if err != nil {
			return c, err
		}
		c.Name = &name
	}
	if c.Permissions != nil {
		var err error
		if c.Permissions, err = normalise(c.Permissions); err != nil {
			return c, err
		}
	}
	return c, nil
}

func checkName(name string) (string, error) {
	name = strings.TrimSpace(strings.ToValidUTF8(name, "\uFFFD"))
	if name == "" || len([]rune(name)) > maxName {
		return "", fault.Invalid("name", "must be 1 to %d characters", maxName)
	}
	return name, nil
}
