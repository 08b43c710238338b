package app

import (
	"context"
	"log/slog"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

// noWorkers refuses credentials that nobody can have yet.
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

// Handle implements slog.Handler. What was cut short by a stop is no error:
// the job engine says so of its own housekeeping.
func (h levelHandler) Handle(ctx context.Context, r slog.Record) error {
	stopped := false
	r.Attrs(func(a slog.Attr) bool {
		stopped = stopped || a.Key == "error" && a.Value.String() == context.Canceled.Error()
		return !stopped
	})
	if stopped {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup implements slog.Handler.
func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.level}
}
