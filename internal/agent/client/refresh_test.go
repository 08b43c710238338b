package client_test

import (
	"errors"
	"testing"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

// The answer to a refresh is lost, twice even: the same call is answered again.
func TestLostAnswerOfARefresh(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	f.server.Revoke()
	f.server.LoseAnswer("/auth/refresh")
	f.server.LoseAnswer("/auth/refresh")
	if _, err := f.device.InstallConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.named) != 1 || len(f.saved) != 1 || f.saved[0].RefreshToken == f.named[0].RefreshToken {
		t.Errorf("named %d, saved %d", len(f.named), len(f.saved))
	}
	f.server.Revoke()
	if _, err := f.device.InstallConfig(t.Context()); err != nil || len(f.saved) != 2 {
		t.Errorf("the next refresh: %v, saved %d", err, len(f.saved))
	}
	if len(f.named) != 2 || f.named[0].RequestID == f.named[1].RequestID {
		t.Error("a request id was used for two rotations")
	}
}

// A process that was killed at any point of a refresh left a session that the
// next one goes on with.
func TestRefreshGoesOnInAnotherProcess(t *testing.T) {
	t.Parallel()
	kill := errors.New("killed")
	for _, answered := range []bool{false, true} {
		f := register(t, wiretest.New(t))
		f.server.Revoke()
		if answered { // after the answer, before its save
			f.device.Save = func(s client.Session) error {
				if s.RequestID == "" {
					return kill
				}
				return f.save(s)
			}
		} else { // before the call
			f.device.Save = func(s client.Session) error { return errors.Join(f.save(s), kill) }
		}
		if _, err := f.device.InstallConfig(t.Context()); !errors.Is(err, kill) || len(f.named) != 1 {
			t.Fatalf("%v, named %d", err, len(f.named))
		}
		next := &client.Device{Client: f.device.Client, Clock: f.clock, Log: f.device.Log, Save: f.save}
		next.Use(f.named[0])
		if _, err := next.InstallConfig(t.Context()); err != nil || len(f.named) != 1 || len(f.saved) != 1 {
			t.Errorf("answered %v: %v, named %d, saved %d", answered, err, len(f.named), len(f.saved))
		}
	}
}

// The server hears nothing of a refresh whose name could not be stored.
func TestRefreshIsNamedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	full := errors.New("disk full")
	f.device.Save = func(client.Session) error { return full }
	f.server.Revoke()
	for range 2 {
		if _, err := f.device.InstallConfig(t.Context()); !errors.Is(err, full) || f.server.Count("/auth/refresh") != 0 {
			t.Fatalf("%v, %d refreshes", err, f.server.Count("/auth/refresh"))
		}
	}
	f.device.Save = f.save
	if _, err := f.device.InstallConfig(t.Context()); err != nil || len(f.named) != 1 || len(f.saved) != 1 {
		t.Errorf("%v, named %d, saved %d", err, len(f.named), len(f.saved))
	}
}
