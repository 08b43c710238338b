package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/install"
)

// ErrItems is wrapped by Once and Apply when items failed or still wait.
var ErrItems = errors.New("not everything is installed")

// Once does one round: it finishes what an earlier process left, catches up
// with the stream, and fetches and installs everything that changed. It waits
// for private keys that are being wrapped as long as ctx lasts.
func (a *Agent) Once(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		return err
	}
	a.announce(ctx)
	cursor, err := a.catchUp(ctx)
	if err != nil {
		return a.unreached(err)
	}
	err = a.complete(ctx, task{all: true, impatient: true})
	if err == nil || errors.Is(err, ErrItems) {
		// Failed items are remembered: the stream need not tell of them again.
		err = errors.Join(err, a.contact(cursor))
	}
	return err
}

// Apply installs the present install-config without looking at the stream.
// force installs every file and runs every command, changed or not.
func (a *Agent) Apply(ctx context.Context, force bool) error {
	if err := a.begin(ctx); err != nil {
		return err
	}
	return a.complete(ctx, task{all: true, impatient: true, force: force})
}

func (a *Agent) begin(ctx context.Context) error {
	if err := a.engine.Recover(ctx); err != nil {
		return err
	}
	return a.ready(ctx)
}

// catchUp reads the stream to its end and gives the cursor there. What the
// signals name does not matter: everything is fetched afterwards.
func (a *Agent) catchUp(ctx context.Context) (string, error) {
	cursor := a.sync.Cursor
	for {
		u, err := a.device.Updates(ctx, cursor, 0)
		if errors.Is(err, client.ErrResync) && cursor != "" {
			cursor = ""
			continue
		}
		if err != nil {
			return "", err
		}
		if u.Cursor != "" {
			cursor = u.Cursor
		}
		if len(u.Signals) == 0 {
			return cursor, nil
		}
	}
}

// complete does rounds until nothing waits any more or ctx ends.
func (a *Agent) complete(ctx context.Context, t task) error {
	results, err := a.round(ctx, t)
	for err == nil && a.waiting() {
		if a.clock.Sleep(ctx, a.nextWait().Sub(a.clock.Now())) != nil {
			break
		}
		results, err = a.round(ctx, task{})
	}
	if err != nil {
		return a.unreached(err)
	}
	if err := a.contact(""); err != nil {
		return err
	}
	return a.summarize(results)
}

// summarize prints what changed and gives an error for what failed.
func (a *Agent) summarize(results []install.Result) error {
	var bad []string
	changed := 0
	for _, r := range results {
		if r.Changed {
			changed++
			fmt.Fprintf(a.opt.Out, "%s: done\n", r.ItemID)
		}
		if r.Status != install.StatusOK {
			bad = append(bad, fmt.Sprintf("%s is %s: %s", r.ItemID, r.Status, r.Error))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%w:\n  %s", ErrItems, strings.Join(bad, "\n  "))
	}
	if changed == 0 {
		fmt.Fprintln(a.opt.Out, "Everything is up to date.")
	}
	return nil
}

// unreached adds to an error of the connection what it means for the device.
func (a *Agent) unreached(err error) error {
	err = errors.Join(err, a.trouble(err))
	if _, ok := client.Transient(err); ok {
		return fmt.Errorf("%w\nWhat is installed stays as it is. Check the network and that %s runs, then try again", err, a.login.Server)
	}
	return err
}
