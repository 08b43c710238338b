package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/agent/clock"
)

const (
	refreshEarly = 60 * time.Second
	firstRetry   = 5 * time.Second
	longestRetry = 300 * time.Second
)

// Session is what a device holds after registration. It is secret.
type Session struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	ExpiresAtMS  int64  `json:"expires_at_ms"` // Unix ms, by this machine's clock
	// RequestID names the rotation of RefreshToken that is under way; "": none.
	// With it the server answers the same call again when its answer was lost.
	RequestID string `json:"request_id,omitempty"`
}

// NewSession makes a session of a token pair received at now.
func NewSession(t Tokens, now time.Time) Session {
	return Session{AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, ExpiresAtMS: t.ExpiresAt(now).UnixMilli()}
}

// Device sends requests with the device's access token. It is safe for
// concurrent use.
type Device struct {
	Client *Client
	Clock  clock.Clock
	Log    *slog.Logger
	// Save stores a session durably. It is called with a RequestID before the
	// refresh token is sent, and with the new pair before its access token is used.
	Save func(Session) error
	// Patient devices wait for a server that cannot be reached when the token
	// must be refreshed; others give the error back at once.
	Patient bool

	mu      sync.Mutex
	session Session
	unsaved bool
}

// Use sets the session to start with: one that is stored already.
func (d *Device) Use(s Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session, d.unsaved = s, false
}

// call sends r with a valid access token. When the server refuses the token it
// refreshes once and tries once more.
func (d *Device) call(ctx context.Context, r request) (*answer, error) {
	token, err := d.token(ctx, "")
	if err != nil {
		return nil, err
	}
	r.token = token
	a, err := d.Client.do(ctx, r)
	if !refused(err) {
		return a, err
	}
	if r.token, err = d.token(ctx, token); err != nil {
		return nil, err
	}
	return d.Client.do(ctx, r)
}

// refused says whether a fresh token could help. A forbidden export could not.
func refused(err error) bool {
	return HasStatus(err, http.StatusUnauthorized) ||
		(HasStatus(err, http.StatusForbidden) && !HasKey(err, "EXPORT_FORBIDDEN"))
}

// token gives an access token that lasts for a minute more and is not the
// refused one.
func (d *Device) token(ctx context.Context, refused string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ends := time.UnixMilli(d.session.ExpiresAtMS).Add(-refreshEarly)
	if d.session.AccessToken == refused || d.session.AccessToken == "" || !d.Clock.Now().Before(ends) {
		if err := d.rotate(ctx); err != nil {
			return "", err
		}
	}
	if err := d.keep(); err != nil {
		return "", err
	}
	return d.session.AccessToken, nil
}

// keep stores a session that has changed. Until that has worked nobody gets the
// token, nor does the server get the refresh token: after a crash nothing that
// is needed to go on may be missing.
func (d *Device) keep() error {
	if !d.unsaved {
		return nil
	}
	if err := d.Save(d.session); err != nil {
		return fmt.Errorf("store session: %w", err)
	}
	d.unsaved = false
	return nil
}

// rotate trades the refresh token for a new pair, which is not stored yet. The
// name of the rotation is stored first and stays the same until a pair is.
func (d *Device) rotate(ctx context.Context) error {
	if d.session.RequestID == "" {
		d.session.RequestID, d.unsaved = rand.Text(), true
	}
	if err := d.keep(); err != nil {
		return err
	}
	backoff := clock.Backoff{First: firstRetry, Max: longestRetry}
	for {
		tokens, err := d.Client.refresh(ctx, d.session.RefreshToken, d.session.RequestID)
		if err == nil {
			d.session, d.unsaved = NewSession(*tokens, d.Clock.Now()), true
			return nil
		}
		if err := d.giveUp(ctx, err); err != nil {
			return err
		}
		after, _ := Transient(err)
		wait := backoff.Next(after)
		d.Log.WarnContext(ctx, "token refresh will be tried again", "in", wait, "cause", err)
		if d.Clock.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// giveUp turns an error of refresh that waiting does not mend into its final
// form; nil means: try again.
func (d *Device) giveUp(ctx context.Context, err error) error {
	if _, ok := Transient(err); ok && ctx.Err() == nil {
		var none *Unavailable
		if errors.As(err, &none) && !d.Patient {
			return err
		}
		return nil
	}
	var answer *Error
	if !errors.As(err, &answer) || answer.Status >= 500 {
		return err
	}
	if answer.Code == 10003 {
		return fmt.Errorf("this device's refresh token was used before (%w): %w", err, ErrLoginRequired)
	}
	return fmt.Errorf("this device's login is no longer valid (%w): %w", err, ErrLoginRequired)
}
