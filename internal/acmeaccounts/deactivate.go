package acmeaccounts

import (
	"context"
	"errors"
	"fmt"
)

const registeredSQL = `SELECT id FROM acme_accounts WHERE user_id = $1 AND account_url <> '' ORDER BY id`

// DeactivateAll ends the user's accounts at their CAs for good (RFC 8555 section
// 7.3.6). It may be repeated: one that is ended is NEW again. It calls the CAs:
// never call it inside a transaction. The error tells of all that failed.
func (s *Service) DeactivateAll(ctx context.Context, userID int64) error {
	ids, err := s.registered(ctx, userID)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range ids {
		account, err := s.Get(ctx, s.DB.Reader(), userID, id)
		if err != nil {
			return err
		}
		client, known, err := s.Client(&account)
		if err == nil {
			err = client.Deactivate(ctx, known)
		}
		if err == nil {
			err = s.Forget(ctx, &account)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("ACME account %d: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Service) registered(ctx context.Context, userID int64) (ids []int64, err error) {
	rows, err := s.DB.Reader().QueryContext(ctx, registeredSQL, userID)
	if err != nil {
		return nil, fmt.Errorf("list ACME accounts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("list ACME accounts: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
