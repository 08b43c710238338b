package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// children are the programs the demo started, in order.
type children struct {
	folder    string
	dieWithUs bool

	mu      sync.Mutex
	started []*child
}

// child is a running program whose output goes to files, so that it can outlive the demo.
type child struct {
	name   string
	output string // path of the file with standard output and error
	cmd    *exec.Cmd
	done   chan struct{} // closed when it ended
	err    error         // why, valid after done
}

// start runs a program in the background. Its output goes to <folder>/<name>.log.
func (cs *children) start(name string, cmd *exec.Cmd) (*child, error) {
	c := &child{name: name, output: filepath.Join(cs.folder, name+".log"), cmd: cmd, done: make(chan struct{})}
	log, err := os.OpenFile(c.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = log.Close() }()
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	// A session of its own keeps Ctrl-C for the demo, which stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cs.dieWithUs {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.started = append(cs.started, c)
	return c, nil
}

// stop ends all children, the last one first: TERM, and KILL after ten seconds.
func (cs *children) stop() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range slices.Backward(cs.started) {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			_ = c.cmd.Process.Kill()
			<-c.done
		}
	}
	cs.started = nil
}

// ids lists the process ids, for kill.
func (cs *children) ids() string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var out []string
	for _, c := range cs.started {
		select {
		case <-c.done: // some end by themselves
		default:
			out = append(out, strconv.Itoa(c.cmd.Process.Pid))
		}
	}
	return strings.Join(out, " ")
}

// line waits for a line of the program's output that holds marker and returns what follows marker.
func (c *child) line(ctx context.Context, path, marker string) (string, error) {
	return eventually(ctx, func() (string, error) {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("read output: %w", err)
		}
		for line := range bytes.Lines(content) {
			if _, rest, ok := strings.Cut(string(line), marker); ok && strings.HasSuffix(rest, "\n") {
				return strings.TrimSuffix(rest, "\n"), nil
			}
		}
		select {
		case <-c.done:
			return "", permanent{fmt.Errorf("%s ended: %w; it said:\n%s", c.name, c.err, content)}
		default:
			return "", fmt.Errorf("%s has not printed %q; it said:\n%s", c.name, marker, content)
		}
	})
}
