package agent

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/clock"
	"certharbor.dev/certharbor/internal/agent/install"
	"certharbor.dev/certharbor/internal/agent/statedir"
)

// Options say how an Agent works. State is required.
type Options struct {
	State       string      // path of the state folder
	Version     string      // of this agent
	TrustDir    string      // where import_ca puts CAs; "" = such items fail
	PFXPassword string      // of bundle.pfx
	Env         []string    // of commands, NAME=value
	Own         []string    // paths of files that were named to the agent: never targets
	Insecure    bool        // the server may be plain http:// beyond this machine
	Clock       clock.Clock // nil = the system's
	Log         *slog.Logger
	Out         io.Writer // for people; nil = nowhere

	// Crash, when set, is called with the name of every point a kill could
	// strike. Tests use it.
	Crash func(point string)
}

// Agent works on one state folder, which it has locked. Its methods are not
// for concurrent use.
type Agent struct {
	opt      Options
	clock    clock.Clock
	log      *slog.Logger
	dir      *statedir.Dir
	lock     *statedir.Lock
	identity *identity
	login    *login   // nil before the first login
	barred   error    // why the login's server is not asked; nil: it is
	pending  *pending // registration under way, nil: none
	sync     syncState
	device   *client.Device
	engine   *install.Engine
	waits    map[install.Ref]*wait

	announced bool // the server knows our version
}

// ErrNotLoggedIn says that this device was never registered from this state
// folder.
var ErrNotLoggedIn = errors.New("this device is not registered yet: run certharbor-agent login --server URL")

// Open locks the state folder, makes the device's identity if there is none,
// and loads what is stored. Close gives the folder back.
func Open(opt Options) (*Agent, error) {
	a := &Agent{opt: opt, clock: opt.Clock, log: opt.Log, waits: map[install.Ref]*wait{}}
	if a.clock == nil {
		a.clock = clock.System{}
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.opt.Out == nil {
		a.opt.Out = io.Discard
	}
	var err error
	if a.dir, err = statedir.Open(opt.State); err != nil {
		return nil, err
	}
	if a.lock, err = a.dir.Lock(); err != nil {
		return nil, errors.Join(err, a.dir.Close())
	}
	if err := a.load(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.engine = &install.Engine{State: a.dir, Clock: a.clock, Log: a.log, TrustDir: opt.TrustDir, Env: opt.Env, Own: a.own(), Crash: opt.Crash}
	return a, nil
}

// own gives the files that no install-config may replace: they decide what
// this agent is, whom it trusts and what it can read.
func (a *Agent) own() []string {
	list := slices.Clone(a.opt.Own)
	if path, err := os.Executable(); err == nil {
		list = append(list, path)
	}
	if a.login != nil && a.login.CAFile != "" {
		list = append(list, a.login.CAFile)
	}
	return list
}

// Close unlocks the state folder.
func (a *Agent) Close() error { return errors.Join(a.lock.Unlock(), a.dir.Close()) }

func (a *Agent) load() error {
	var err error
	if a.identity, err = loadIdentity(a.dir); err != nil {
		return err
	}
	var l login
	found, err := a.dir.Read(sessionName, &l)
	if err != nil {
		return fmt.Errorf("%w: log in again with certharbor-agent login after removing it", err)
	}
	if found {
		if err := a.useLogin(&l); err != nil {
			return err
		}
	}
	if err := a.loadPending(); err != nil {
		return err
	}
	return a.loadSync()
}

// client gives a client of a server.
func (a *Agent) client(server, caFile string) (*client.Client, error) {
	return client.New(server, client.Options{CAFile: caFile, Version: a.opt.Version, Insecure: a.opt.Insecure})
}

// usable says why the server of the stored login cannot be asked.
func (a *Agent) usable() error {
	if a.login == nil {
		return ErrNotLoggedIn
	}
	return a.barred
}

// useLogin makes the client of a stored login.
func (a *Agent) useLogin(l *login) error {
	a.login = l
	c, err := a.client(l.Server, l.CAFile)
	if errors.Is(err, client.ErrInsecure) {
		a.barred = err // to log in elsewhere is still possible
		return nil
	}
	if err != nil {
		return err
	}
	a.barred = nil
	a.device = &client.Device{Client: c, Clock: a.clock, Log: a.log, Save: a.saveSession}
	a.device.Use(l.Session)
	return nil
}

func (a *Agent) saveSession(s client.Session) error {
	step := "refresh-answered"
	if s.RequestID != "" {
		step = "refresh-named"
	}
	a.crash(step)
	a.login.Session = s
	if err := a.dir.Write(sessionName, a.login); err != nil {
		return err
	}
	a.crash(step + "-saved")
	return nil
}

func (a *Agent) crash(point string) {
	if a.opt.Crash != nil {
		a.opt.Crash(point)
	}
}
