package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/clock"
	"certharbor.dev/certharbor/internal/agent/install"
	"certharbor.dev/certharbor/internal/agent/material"
)

const (
	maxTries    = 12 // for a private key that is still being wrapped (wire.md 7)
	firstWait   = 3 * time.Second
	fetchers    = 4
	configTries = 4
)

// wait is an object that will be asked for again.
type wait struct {
	err     error
	tries   int
	next    time.Time
	backoff clock.Backoff
}

func (w *wait) over() bool { return w.tries >= maxTries }

// fetched is one object or the reason why there is none.
type fetched struct {
	ref    install.Ref
	object *material.Object
	err    error
}

// fetch gets the wanted objects, several at once. Its own error says that the
// server cannot be asked at all now.
func (a *Agent) fetch(ctx context.Context, wants []install.Want, stale func(install.Ref) bool) (install.Supply, error) {
	in := install.Supply{Objects: map[install.Ref]*material.Object{}, Errors: map[install.Ref]error{}, Waiting: map[install.Ref]bool{}}
	now := a.clock.Now()
	maps.DeleteFunc(a.waits, func(r install.Ref, _ *wait) bool {
		return !slices.ContainsFunc(wants, func(w install.Want) bool { return w.Ref == r })
	})
	var ask []install.Want
	for _, want := range wants {
		w := a.waits[want.Ref]
		if w != nil && !stale(want.Ref) && (w.over() || now.Before(w.next)) {
			in.Errors[want.Ref], in.Waiting[want.Ref] = w.err, !w.over()
			continue
		}
		ask = append(ask, want)
	}
	for _, got := range a.fetchAll(ctx, ask) {
		if away(got.err) {
			return in, got.err
		}
		a.sort(&in, got, stale(got.ref))
	}
	return in, nil
}

// away says whether err means that no other request would fare better.
func away(err error) bool {
	var none *client.Unavailable
	return errors.As(err, &none) && !none.Answered || errors.Is(err, client.ErrLoginRequired) || client.HasStatus(err, 429)
}

// sort puts a fetched object or its error where it belongs. A signal about an
// object (fresh) starts its tries anew.
func (a *Agent) sort(in *install.Supply, got fetched, fresh bool) {
	switch {
	case got.err == nil:
		delete(a.waits, got.ref)
		in.Objects[got.ref] = got.object
		return
	case client.Pending(got.err):
		w := a.waits[got.ref]
		if w == nil || fresh {
			w = &wait{backoff: clock.Backoff{First: firstWait, Max: time.Duration(1<<maxTries) * firstWait}}
			a.waits[got.ref] = w
		}
		after, _ := client.Transient(got.err)
		w.tries++
		w.err, w.next = got.err, a.clock.Now().Add(w.backoff.Next(after))
		in.Waiting[got.ref] = !w.over()
	case client.HasKey(got.err, "NOT_ISSUED") || errors.Is(got.err, errNotIssued):
		in.Waiting[got.ref] = true // a signal comes with the certificate
	}
	in.Errors[got.ref] = got.err
}

var errNotIssued = errors.New("it is not issued yet")

func (a *Agent) fetchAll(ctx context.Context, ask []install.Want) []fetched {
	out := make([]fetched, len(ask))
	slots := make(chan struct{}, fetchers)
	var group sync.WaitGroup
	for i, want := range ask {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			object, err := a.fetchOne(ctx, want)
			out[i] = fetched{want.Ref, object, err}
		})
	}
	group.Wait()
	return out
}

func (a *Agent) fetchOne(ctx context.Context, want install.Want) (*material.Object, error) {
	if want.Ref.Kind == "ca" {
		ca, err := a.device.CA(ctx, want.Ref.ID)
		if err != nil {
			return nil, err
		}
		return material.Authority(*ca)
	}
	rec, err := a.device.Certificate(ctx, want.Ref.ID, want.Key)
	if err != nil {
		return nil, err
	}
	if rec.Cert == "" && rec.CertificatePEM == "" {
		return nil, fmt.Errorf("%s: %w", want.Ref, errNotIssued)
	}
	return material.Certificate(a.identity.key, *rec, a.opt.PFXPassword)
}

// fetchConfig gets the install-config, at least of version atLeast: a signal
// has named it. When the server goes on serving a lower one, that one counts.
func (a *Agent) fetchConfig(ctx context.Context, atLeast int64) (install.Config, error) {
	backoff := clock.Backoff{First: 200 * time.Millisecond, Max: time.Second}
	for try := 1; ; try++ {
		raw, err := a.device.InstallConfig(ctx)
		if err != nil {
			return install.Config{}, err
		}
		cfg, err := install.Parse(raw)
		if err != nil {
			return install.Config{}, err
		}
		if cfg.Version >= atLeast || try == configTries {
			if !bytes.Equal(a.sync.Config, raw) {
				a.sync.Config, a.sync.changed = raw, true
			}
			return cfg, nil
		}
		if err := a.clock.Sleep(ctx, backoff.Next(0)); err != nil {
			return install.Config{}, err
		}
	}
}
