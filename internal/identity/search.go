package identity

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/web"
)

// SearchUsers returns the users of the page in the order of their ids, and how
// many there are.
func (s *Service) SearchUsers(ctx context.Context, page web.Page) ([]User, int64, error) {
	q := New(s.db.Reader())
	total, err := q.countUsers(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("count users: %w", err)
	}
	rows, err := q.pageOfUsers(ctx, pageOfUsersParams{PageStart: page.Offset, PageSize: page.Limit})
	if err != nil {
		return nil, 0, fmt.Errorf("list users: %w", err)
	}
	users := make([]User, len(rows))
	for i, row := range rows {
		if users[i], err = row.user(); err != nil {
			return nil, 0, fmt.Errorf("list users: %w", err)
		}
	}
	return users, total, nil
}
