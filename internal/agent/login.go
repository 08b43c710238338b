package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/clock"
)

// Login registers this device at a server with the help of a person, who opens
// a link and confirms a code (RFC 8628). caFile, if not empty, names a PEM file
// of certificates to trust beside the system's. A registration that an earlier
// process left under way at this server is ended first.
func (a *Agent) Login(ctx context.Context, server, caFile string) error {
	c, caFile, err := a.dial(server, caFile)
	if err != nil {
		return err
	}
	if done, err := a.resume(ctx, server, caFile); done || err != nil {
		return err
	}
	self := a.registration()
	flow, err := c.StartFlow(ctx, self)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.opt.Out, "To register this device, open\n\n  %s\n\nand confirm the code %s (valid for %v).\n",
		flow.VerificationURIComplete, flow.UserCode, time.Duration(flow.ExpiresIn)*time.Second)
	poll, err := a.awaitApproval(ctx, c, flow)
	if err != nil {
		return err
	}
	p := &pending{Server: server, CAFile: caFile, UserID: poll.UserID, RegistrationCode: poll.RegistrationCode}
	if err := a.notePending(p); err != nil {
		return err
	}
	return a.register(ctx)
}

// Enroll registers this device with an API key that has the right
// ForDeviceAuthenticate. The key is not stored.
func (a *Agent) Enroll(ctx context.Context, server, caFile, apiKey string) error {
	if !strings.HasPrefix(apiKey, "ak_") {
		return errors.New("the API key on standard input does not start with ak_: pass the whole key, for example --api-key-stdin < key.txt")
	}
	c, caFile, err := a.dial(server, caFile)
	if err == nil {
		err = a.dropPending() // this registration takes its place
	}
	if err != nil {
		return err
	}
	done, err := a.registerPatiently(ctx, func() (*client.Registered, error) {
		return c.RegisterWithKey(ctx, apiKey, a.registration())
	})
	if client.HasStatus(err, 401) || client.HasStatus(err, 403) {
		return fmt.Errorf("%w: make an API key with the scope ForDeviceAuthenticate", err)
	}
	if err != nil {
		return err
	}
	return a.registered(server, caFile, done)
}

func (a *Agent) dial(server, caFile string) (*client.Client, string, error) {
	if caFile != "" {
		abs, err := filepath.Abs(caFile)
		if err != nil {
			return nil, "", fmt.Errorf("--ca-file: %w", err)
		}
		caFile = abs
	}
	c, err := a.client(server, caFile)
	return c, caFile, err
}

// awaitApproval polls as RFC 8628 section 3.5 says: at the given interval,
// five seconds slower after each slow_down, through passing faults.
func (a *Agent) awaitApproval(ctx context.Context, c *client.Client, flow *client.Flow) (*client.Poll, error) {
	interval := time.Duration(flow.Interval) * time.Second
	ends := a.clock.Now().Add(time.Duration(flow.ExpiresIn) * time.Second)
	for a.clock.Now().Before(ends) {
		if err := a.clock.Sleep(ctx, interval); err != nil {
			return nil, fmt.Errorf("login was given up: %w", err)
		}
		poll, err := c.PollFlow(ctx, flow)
		if after, ok := client.Transient(err); ok && ctx.Err() == nil {
			a.log.WarnContext(ctx, "still waiting for approval", "cause", err)
			interval = max(interval, after)
			continue
		}
		if err != nil {
			return nil, err
		}
		switch poll.Status {
		case "ready":
			return poll, nil
		case "slow_down":
			interval += 5 * time.Second
		case "access_denied":
			return nil, errors.New("the login was denied: run certharbor-agent login again if that was a mistake")
		case "expired":
			return nil, errCodeExpired
		}
	}
	return nil, errCodeExpired
}

var errCodeExpired = errors.New("the code expired before it was confirmed: run certharbor-agent login again")

// registerPatiently repeats a registration whose answer was lost: the server
// knows the device by its id and answers the same again.
func (a *Agent) registerPatiently(ctx context.Context, register func() (*client.Registered, error)) (*client.Registered, error) {
	backoff := clock.Backoff{First: time.Second, Max: 16 * time.Second}
	for range 5 {
		done, err := register()
		after, ok := client.Transient(err)
		if !ok {
			return done, err
		}
		a.log.WarnContext(ctx, "registration will be tried again", "cause", err)
		if a.clock.Sleep(ctx, backoff.Next(after)) != nil {
			return nil, err
		}
	}
	return register()
}

func (a *Agent) registration() client.Registration {
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed device"
	}
	return client.Registration{
		DevicePublicID: a.identity.DevicePublicID, DevPK: a.identity.key.PublicB64(),
		Platform: runtime.GOOS, Model: runtime.GOARCH, AppVersion: a.opt.Version,
		Name: host, UserAgent: "certharbor-agent/" + a.opt.Version,
	}
}

// registered stores a login. What was known of the former server goes first: a
// crash in between costs a full fetch, no more.
func (a *Agent) registered(server, caFile string, done *client.Registered) error {
	a.sync = syncState{}
	if err := a.dir.Remove(syncName); err != nil {
		return err
	}
	l := &login{
		Server: strings.TrimRight(server, "/"), CAFile: caFile, DeviceID: done.Device.ID, UserID: done.Device.UserID,
		Name: done.Device.Name, Session: client.NewSession(done.Session, a.clock.Now()),
	}
	a.crash("registration-answered")
	if err := a.dir.Write(sessionName, l); err != nil {
		return err
	}
	a.crash("registration-saved")
	if err := a.dropPending(); err != nil {
		return err
	}
	fmt.Fprintf(a.opt.Out, "Registered as device %d (%s).\nNext: certharbor-agent run (stays and keeps everything up to date) or certharbor-agent once.\n",
		l.DeviceID, a.identity.DevicePublicID)
	return a.useLogin(l)
}
