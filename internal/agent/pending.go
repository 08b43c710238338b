package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/statedir"
)

const pendingName = "registration.json"

// pending is a registration that a person has approved. It is stored before the
// code is presented and removed after the login is stored: in between a process
// that comes after presents it again, which the server allows for a minute
// (decisions.md 7.5). It is secret.
type pending struct {
	Server           string `json:"server"`
	CAFile           string `json:"ca_file,omitempty"`
	UserID           int64  `json:"user_id"`
	RegistrationCode string `json:"registration_code"`
}

// loadPending reads what an earlier process left; a damaged file costs a login.
func (a *Agent) loadPending() error {
	var p pending
	found, err := a.dir.Read(pendingName, &p)
	if errors.Is(err, statedir.ErrDamaged) {
		a.log.Error("the registration under way is damaged and dropped", "cause", err)
		return a.dir.SetAside(pendingName)
	}
	if found {
		a.pending = &p
	}
	return err
}

func (a *Agent) notePending(p *pending) error {
	if err := a.dir.Write(pendingName, p); err != nil {
		return err
	}
	a.pending = p
	a.crash("registration-noted")
	return nil
}

func (a *Agent) dropPending() error {
	if a.pending == nil {
		return nil
	}
	if err := a.dir.Remove(pendingName); err != nil {
		return err
	}
	a.pending = nil
	return nil
}

// register presents the pending registration. It stays pending only when an
// error may pass by itself.
func (a *Agent) register(ctx context.Context) error {
	p := a.pending
	c, err := a.client(p.Server, p.CAFile)
	if err != nil {
		return err
	}
	reg := a.registration()
	reg.UserID, reg.RegistrationCode = p.UserID, p.RegistrationCode
	done, err := a.registerPatiently(ctx, func() (*client.Registered, error) { return c.Register(ctx, reg) })
	if err != nil {
		if _, ok := client.Transient(err); ok {
			return err
		}
		return errors.Join(err, a.dropPending())
	}
	return a.registered(p.Server, p.CAFile, done)
}

// resume ends a registration that is under way at the server and says whether
// that made a login. One at another server is given up, and so is one that the
// server refuses.
func (a *Agent) resume(ctx context.Context, server, caFile string) (bool, error) {
	if a.pending == nil {
		return false, nil
	}
	if strings.TrimRight(a.pending.Server, "/") != strings.TrimRight(server, "/") {
		return false, a.dropPending()
	}
	a.pending.CAFile = caFile
	err := a.register(ctx)
	if err != nil && a.pending == nil {
		a.log.WarnContext(ctx, "the registration under way came too late", "cause", err)
		return false, nil
	}
	return err == nil, err
}

// ready ends a registration under way and checks that there is a login.
func (a *Agent) ready(ctx context.Context) error {
	if p := a.pending; p != nil {
		if _, err := a.resume(ctx, p.Server, p.CAFile); err != nil {
			return fmt.Errorf("the registration under way cannot be ended yet: %w", err)
		}
	}
	return a.usable()
}
