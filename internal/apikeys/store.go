package apikeys

import (
	"encoding/json"
	"fmt"
)

// row is what every query of whole records gives.
type row = getKeyRow

func encode(permissions []Permission) (string, error) {
	text, err := json.Marshal(permissions)
	if err != nil {
		return "", fmt.Errorf("encode permissions: %w", err)
	}
	return string(text), nil
}

func decode(id int64, text string) ([]Permission, error) {
	var permissions []Permission
	if err := json.Unmarshal([]byte(text), &permissions); err != nil {
		return nil, fmt.Errorf("decode permissions of API key %d: %w", id, err)
	}
	return permissions, nil
}

func fromRow(r row) (APIKey, error) {
	permissions, err := decode(r.ID, r.Permissions)
	return APIKey{
		ID: r.ID, UserID: r.UserID, Name: r.Name, Prefix: r.Prefix, Permissions: permissions, ExpiresInSeconds: r.ExpiresInSeconds,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt, LastUsedAt: r.LastUsedAt,
	}, err
}
