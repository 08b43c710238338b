package app

import (
	"context"
	"log/slog"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

// noKeys and noWorkers refuse credentials that nobody can have yet.
func noKeys(context.Context, string) (*access.Caller, error) {
	return nil, fault.Unauthorized("The API key is unknown, expired or revoked.")
}

func noWorkers(*http.Request, string) (*access.Caller, error) {
	return nil, fault.Unauthorized("The worker token is unknown or revoked.")
}

// levelHandler passes on what is at least as grave as its level.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

// Enabled implements slog.Handler.
func (h levelHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup implements slog.Handler.
func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.level}
}
