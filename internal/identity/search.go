package identity

import (
	"context"
	"fmt"
	"strings"

	"certharbor.dev/certharbor/internal/web"
)

// UserFilter says which users are listed. The zero value lists all.
type UserFilter struct {
	Search string // what the address or the name begins with, in either case
	Admins bool   // administrators alone
	Status Status // "": any
}

// The lists of users, each served by its own index: a filter that another
// leaves is looked at row by row. A search finds by the beginning, in the order
// of bytes.
const (
	pageOfUsersSQL = `SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at FROM users
WHERE id > 0 ORDER BY id LIMIT $1 OFFSET $2`
	pageByStatusSQL = `SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at FROM users
WHERE status = $3 ORDER BY id LIMIT $1 OFFSET $2`
	pageOfAdminsSQL = `SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at FROM users
WHERE id > 0 AND roles <> '[]' AND roles LIKE '%"admin"%' AND ($3 = '' OR status = $3) ORDER BY id LIMIT $1 OFFSET $2`
	searchUsersSQL = `-- name: searchUsers
SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at FROM users
WHERE id IN (
    SELECT id FROM users WHERE email <> '' AND email COLLATE "C" >= $3 AND email COLLATE "C" < $4
    UNION ALL SELECT id FROM users WHERE name <> '' AND lower(name) COLLATE "C" >= $3 AND lower(name) COLLATE "C" < $4)
AND ($5 = '' OR status = $5) AND ($6 = 0 OR roles LIKE '%"admin"%') ORDER BY id LIMIT $1 OFFSET $2`

	countUsersSQL    = `SELECT COUNT(*) FROM users WHERE id > 0`
	countByStatusSQL = `SELECT COUNT(*) FROM users WHERE status = $1`
	countAdminsSQL   = `SELECT COUNT(*) FROM users WHERE id > 0 AND roles <> '[]' AND roles LIKE '%"admin"%' AND ($1 = '' OR status = $1)`
	countFoundSQL    = `-- name: countFound
SELECT COUNT(*) FROM users
WHERE id IN (
    SELECT id FROM users WHERE email <> '' AND email COLLATE "C" >= $1 AND email COLLATE "C" < $2
    UNION ALL SELECT id FROM users WHERE name <> '' AND lower(name) COLLATE "C" >= $1 AND lower(name) COLLATE "C" < $2)
AND ($3 = '' OR status = $3) AND ($4 = 0 OR roles LIKE '%"admin"%')`
)

// texts are the two statements for the filter, and its arguments.
func (f UserFilter) texts() (list, count string, args []any) {
	switch {
	case f.Search != "":
		from := strings.ToLower(f.Search)
		admins := 0
		if f.Admins {
			admins = 1
		}
		return searchUsersSQL, countFoundSQL, []any{from, from + "\U0010FFFF", string(f.Status), admins}
	case f.Admins:
		return pageOfAdminsSQL, countAdminsSQL, []any{string(f.Status)}
	case f.Status != "":
		return pageByStatusSQL, countByStatusSQL, []any{string(f.Status)}
	}
	return pageOfUsersSQL, countUsersSQL, nil
}

// SearchUsers returns the users of the page that the filter admits, in the order
// of their ids, and how many it admits.
func (s *Service) SearchUsers(ctx context.Context, f UserFilter, page web.Page) (users []User, total int64, err error) {
	list, count, args := f.texts()
	q, d := s.db.Reader(), s.db.Dialect()
	if err := q.QueryRowContext(ctx, d.ByBytes(count), args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count users: %w", err)
	}
	rows, err := q.QueryContext(ctx, d.ByBytes(list), append([]any{page.Limit, page.Offset}, args...)...)
	if err != nil {
		return nil, 0, fmt.Errorf("list users: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r userRow
		if err := rows.Scan(&r.ID, &r.Email, &r.Name, &r.CountryOfResidence, &r.Password, &r.Status, &r.Roles, &r.CreatedAt, &r.UpdatedAt); err != nil {
			return nil, 0, fmt.Errorf("list users: %w", err)
		}
		user, err := r.user()
		if err != nil {
			return nil, 0, fmt.Errorf("list users: %w", err)
		}
		users = append(users, user)
	}
	return users, total, rows.Err()
}
