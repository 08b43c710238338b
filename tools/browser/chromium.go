package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Chromium is a running browser. Make one with Start.
type Chromium struct {
	command *exec.Cmd
	stderr  *strings.Builder
	done    chan struct{} // closed when its pipe has ended
	out     io.WriteCloser

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan message
	events  func(session, method string, params json.RawMessage)
}

// message is one of the protocol's: a call, its answer or an event.
//
//nolint:tagliatelle // the names of the protocol
type message struct {
	ID      int64           `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Refusal        `json:"error,omitempty"`
}

// Refusal is the error that the browser answers a call with.
type Refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

var errGone = errors.New("the browser has ended")

// Start runs Chromium without a window, with its profile in the folder, and
// gives every event to events, one after the other. Without an installed
// Chromium it is an error that says what to install.
func Start(ctx context.Context, folder string, events func(session, method string, params json.RawMessage)) (*Chromium, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), theirIn.Close(), ourOut.Close())
	}
	c := &Chromium{stderr: &strings.Builder{}, done: make(chan struct{}), out: ourOut, waiting: map[int64]chan message{}, events: events}
	// No sandbox: tests run as root in containers, and visit their own server alone.
	c.command = exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--remote-debugging-pipe", "--user-data-dir="+folder, "about:blank")
	c.command.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4, as the flag wants
	c.command.Stderr = c.stderr
	err = c.command.Start()
	err = errors.Join(err, theirIn.Close(), theirOut.Close())
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, errors.Join(err, ourOut.Close(), ourIn.Close()))
	}
	go c.read(ourIn)
	return c, nil
}

func find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("no Chromium on PATH; install the package chromium (tools/setup-test.sh does)")
}

// read gives answers to those who wait for them and events to c.events.
func (c *Chromium) read(in io.ReadCloser) {
	defer in.Close()
	defer close(c.done)
	reader := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		if m.ID == 0 {
			c.events(m.Session, m.Method, m.Params)
			continue
		}
		c.mu.Lock()
		answer := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
}

// Call makes a call of the protocol and decodes its result, unless into is nil.
// session is that of a page, or "" for the browser itself.
func (c *Chromium) Call(ctx context.Context, session, method string, params map[string]any, into any) error {
	encoded, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	m := message{ID: c.last, Session: session, Method: method, Params: encoded}
	c.waiting[m.ID] = answer
	line, err := json.Marshal(m)
	if err == nil {
		_, err = c.out.Write(append(line, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m = <-answer:
	case <-c.done:
		return fmt.Errorf("%s: %w", method, errGone)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %w", method, m.Error)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(m.Result, into); err != nil {
		return fmt.Errorf("%s: decode its result: %w", method, err)
	}
	return nil
}

// Close ends the browser, by force when it takes more than 10 seconds, and
// returns what it wrote to its standard error.
func (c *Chromium) Close() string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_ = c.Call(ctx, "", "Browser.close", nil, nil) // it may be gone already
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = c.command.Process.Kill()
	}
	_ = c.out.Close()
	_ = c.command.Wait() // how it ended is nobody's business
	return c.stderr.String()
}
