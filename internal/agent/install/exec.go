package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	defaultTimeout = 60 * time.Second
	scriptTimeout  = 120 * time.Second
	maxOutput      = 1024
)

// process is a command as the journal keeps it.
type process struct {
	Cmd       Command           `json:"cmd"`
	Env       map[string]string `json:"env,omitempty"`
	RunAs     string            `json:"run_as,omitempty"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
}

func (p process) timeout() time.Duration {
	if p.TimeoutMS > 0 {
		return time.Duration(p.TimeoutMS) * time.Millisecond
	}
	return defaultTimeout
}

// run executes p and waits for it, at most for its time limit: then the
// process and all it started are killed. An error ends with the command's last
// output. The end of ctx does not stop a command: half a reload is worse than
// a late exit.
func (e *Engine) run(ctx context.Context, p process) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout())
	defer cancel()
	argv := p.Cmd.Argv
	if p.Cmd.Shell != "" {
		argv = []string{"/bin/sh", "-c", p.Cmd.Shell}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // running the owner's commands is what exec items are
	cmd.Dir = "/"
	cmd.Env = append(slices.Clone(e.Env), assignments(p.Env)...)
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := runAs(cmd, p.RunAs); err != nil {
		return err
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A service that a script starts may keep the output open for ever.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("did not end within %v%s", p.timeout(), out)
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, out)
	}
	return nil
}

func assignments(env map[string]string) []string {
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// runAs makes cmd run as the named user, which only root can do for others.
func runAs(cmd *exec.Cmd, name string) error {
	if name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("run_as %q: %w", name, err)
	}
	if u.Uid == strconv.Itoa(syscall.Getuid()) {
		return nil
	}
	if syscall.Getuid() != 0 {
		return fmt.Errorf("run_as %q needs the agent to run as root", name)
	}
	cred, err := credential(u)
	if err != nil {
		return fmt.Errorf("run_as %q: %w", name, err)
	}
	cmd.SysProcAttr.Credential = cred
	cmd.Env = append(cmd.Env, "HOME="+u.HomeDir, "USER="+u.Username, "LOGNAME="+u.Username)
	return nil
}

func credential(u *user.User) (*syscall.Credential, error) {
	ids := []string{u.Uid, u.Gid}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	var numbers []uint32
	for _, text := range append(ids, groups...) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("id %q: %w", text, err)
		}
		numbers = append(numbers, uint32(n))
	}
	return &syscall.Credential{Uid: numbers[0], Gid: numbers[1], Groups: numbers[2:]}, nil
}

// tail keeps the end of what a command prints.
type tail struct {
	mu   sync.Mutex
	data []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if n := len(t.data); n > maxOutput {
		t.data = slices.Clone(t.data[n-maxOutput:])
	}
	return len(p), nil
}

// String gives ": " and the output as valid text, or nothing.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(string(bytes.TrimSpace(t.data)), "?")
	if text == "" {
		return ""
	}
	return ": " + text
}
