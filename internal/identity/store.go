package identity

import (
	"context"
	"encoding/json"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Texts that nearly every row has are decoded without work. Callers share the
// lists and must not change them.
var (
	noWords     = []string{}
	adminWords  = []string{RoleAdmin}
	passwordAMR = []string{amrPassword}
)

// words decodes a JSON array of strings as the tables keep it.
func words(text string) ([]string, error) {
	switch text {
	case `[]`:
		return noWords, nil
	case `["admin"]`:
		return adminWords, nil
	case `["pwd"]`:
		return passwordAMR, nil
	}
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("decode a list of words: %w", err)
	}
	return list, nil
}

func wordsText(list []string) (string, error) {
	if len(list) == 0 {
		return "[]", nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode a list of words: %w", err)
	}
	return string(text), nil
}

func (r userRow) user() (User, error) {
	roles, err := words(r.Roles)
	if err != nil {
		return User{}, err
	}
	return User{
		ID: r.ID, Email: r.Email, Name: r.Name, Roles: roles, CountryOfResidence: r.CountryOfResidence,
		Status: Status(r.Status), CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		invited: r.InvitedAt > 0,
	}, nil
}

// lockUser keeps the user as it is until the end of the transaction: one who is
// being disabled gets no session afterwards.
func lockUser(ctx context.Context, tx *sqldb.Tx, id int64) error {
	return tx.QueryRowContext(ctx, `SELECT id FROM users WHERE id = $1`+tx.Dialect().ForUpdate(), id).Scan(&id)
}
