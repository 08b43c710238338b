package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/agent/material"
)

// Signal names a piece of state that changed on the server (wire.md 6).
type Signal struct {
	Type string          `json:"type"`
	TSMS int64           `json:"ts_ms"`
	Ref  json.RawMessage `json:"ref"`
}

// Updates is one answer of the updates endpoint.
type Updates struct {
	Cursor   string        // where to go on from; "" when the server named none
	Signals  []Signal      // in order; none for 204
	Interval time.Duration // X-Poll-Interval, at least 1 s
}

const batch = 100

// Updates asks for signals after cursor ("" = from the oldest retained one)
// and lets the server hold the request for up to wait (whole seconds, at most
// 30 s) when there are none. A cursor that is no longer served gives an error
// that wraps ErrResync.
func (d *Device) Updates(ctx context.Context, cursor string, wait time.Duration) (*Updates, error) {
	const op = "poll updates"
	q := url.Values{"limit": {strconv.Itoa(batch)}}
	if seconds := int(wait / time.Second); seconds > 0 {
		q.Set("wait", strconv.Itoa(seconds))
	}
	a, err := d.call(ctx, request{op: op, method: http.MethodGet, path: "/apiv1/devices/self/updates?" + q.Encode(),
		ifNoneMatch: cursor, timeout: stepTimeout + wait})
	if HasStatus(err, http.StatusConflict) || (cursor != "" && HasStatus(err, http.StatusBadRequest)) {
		return nil, fmt.Errorf("%w: %w", ErrResync, err)
	}
	if err != nil {
		return nil, err
	}
	u := &Updates{Interval: pollInterval(a.header), Cursor: etag(a.header)}
	if a.status == http.StatusNoContent {
		return u, nil
	}
	return u, u.decode(op, a)
}

// decode refuses the whole body for one signal without type or time, so that a
// cursor never moves past something that was not understood.
func (u *Updates) decode(op string, a *answer) error {
	var body struct {
		Cursor  string `json:"cursor"`
		Signals []struct {
			Type string          `json:"type"`
			TSMS *int64          `json:"ts_ms"`
			Ref  json.RawMessage `json:"ref"`
		} `json:"signals"`
	}
	if err := a.into(op, &body); err != nil {
		return err
	}
	if body.Cursor == "" {
		return &Unavailable{Op: op, Answered: true, Err: errors.New("the answer lacks a cursor")}
	}
	u.Cursor = body.Cursor
	for _, s := range body.Signals {
		if s.Type == "" || s.TSMS == nil {
			return &Unavailable{Op: op, Answered: true, Err: errors.New("a signal lacks its type or time")}
		}
		u.Signals = append(u.Signals, Signal{Type: s.Type, TSMS: *s.TSMS, Ref: s.Ref})
	}
	return nil
}

func etag(h http.Header) string {
	return strings.Trim(strings.TrimPrefix(h.Get("ETag"), "W/"), `"`)
}

func pollInterval(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("X-Poll-Interval"))
	if err != nil || seconds < 1 {
		return 30 * time.Second
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

// InstallConfig fetches the device's install configuration, as served.
func (d *Device) InstallConfig(ctx context.Context) (json.RawMessage, error) {
	const op = "fetch install-config"
	a, err := d.call(ctx, request{op: op, method: http.MethodGet, path: "/apiv1/devices/self/install-config"})
	if err != nil {
		return nil, err
	}
	if a.data == nil {
		return nil, &Unavailable{Op: op, Answered: true, Err: errors.New("the answer is empty")}
	}
	return a.data, nil
}

// Certificate fetches a certificate with, when needKey says so, its private
// key. An answer that still lacks the key gives the error of the
// deploy-materials endpoint, which says why (see Pending).
func (d *Device) Certificate(ctx context.Context, id int64, needKey bool) (*material.Record, error) {
	path := fmt.Sprintf("/apiv1/devices/self/certificates/%d", id)
	op := fmt.Sprintf("fetch certificate %d", id)
	for range 2 {
		a, err := d.call(ctx, request{op: op, method: http.MethodGet, path: path})
		if err != nil {
			return nil, err
		}
		var rec material.Record
		if err := a.into(op, &rec); err != nil {
			return nil, err
		}
		if rec.HasKey() || !needKey {
			return &rec, nil
		}
		// Only this endpoint says why there is no key. If it has one by now, the
		// certificate may be a newer one too: fetch both again.
		keyOp := fmt.Sprintf("fetch private key of certificate %d", id)
		if _, err := d.call(ctx, request{op: keyOp, method: http.MethodGet, path: path + "/deploy-materials"}); err != nil {
			return nil, err
		}
	}
	return nil, &Unavailable{Op: op, Answered: true, Err: errors.New("the server does not deliver the private key it says it has")}
}

// CA fetches a CA's certificate.
func (d *Device) CA(ctx context.Context, id int64) (*material.CA, error) {
	op := fmt.Sprintf("fetch CA %d", id)
	a, err := d.call(ctx, request{op: op, method: http.MethodGet, path: fmt.Sprintf("/apiv1/devices/self/cas/%d/bundle", id)})
	if err != nil {
		return nil, err
	}
	var ca material.CA
	if err := a.into(op, &ca); err != nil {
		return nil, err
	}
	return &ca, nil
}

// Notify reports events to the server (wire.md 7.1). Each is a JSON object
// with a `type`; the server ignores those it does not know.
func (d *Device) Notify(ctx context.Context, events ...any) error {
	_, err := d.call(ctx, request{op: "notify server", method: http.MethodPost, path: "/apiv1/devices/self/notify",
		body: map[string]any{"schema": "certctrl.device.notify.v1", "events": events}})
	return err
}
