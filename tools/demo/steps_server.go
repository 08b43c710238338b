package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// startACME starts tools/acmeserver, which validates at the address where CertHarbor will listen.
func (d *demo) startACME(ctx context.Context) (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	d.listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))

	cmd := exec.Command(filepath.Join(d.bin, "demo", "acmeserver"))
	// Few authorizations are reused and some nonces refused, as at a real authority.
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=5", "PEBBLE_AUTHZREUSE=0")
	// It ends when its standard input closes. A named pipe that it holds open itself lets it outlive
	// the demo; a signal stops it.
	pipe := filepath.Join(d.folder, "acmeserver.stdin")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return "", fmt.Errorf("make pipe: %w", err)
	}
	stdin, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("open pipe: %w", err)
	}
	defer func() { _ = stdin.Close() }()
	cmd.Stdin = stdin
	answer := filepath.Join(d.folder, "acmeserver.ready")
	stdout, err := os.OpenFile(answer, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("open answer: %w", err)
	}
	defer func() { _ = stdout.Close() }()
	cmd.Stdout = stdout
	acme, err := d.children.start("acmeserver", cmd)
	if err != nil {
		return "", err
	}
	if err := json.NewEncoder(stdin).Encode(map[string]any{
		"http_port": port,
		"profiles":  map[string]int{"default": int(d.lifetime.Seconds())},
	}); err != nil {
		return "", fmt.Errorf("send options: %w", err)
	}
	line, err := acme.line(ctx, answer, "{")
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal([]byte("{"+line), &d.acme); err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	return d.acme.DirectoryURL + ", certificates live " + d.lifetime.String(), nil
}

// createUser runs certharbor user create before the server has ever run.
func (d *demo) createUser(ctx context.Context) (string, error) {
	d.password = "Demo-" + rand.Text() + "-7x"
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "certharbor"),
		"user", "create", "--email", email, "--name", "operator", "--admin", "--password-stdin", "--data", d.dataFolder())
	cmd.Stdin = strings.NewReader(d.password + "\n")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("certharbor user create: %w\n%s", err, stderr.String())
	}
	id, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return "", fmt.Errorf("certharbor user create printed %q, want the user's id alone: %w", out, err)
	}
	return fmt.Sprintf("user %d, %s", id, email), nil
}

func (d *demo) dataFolder() string { return filepath.Join(d.folder, "data") }

// startServer starts certharbor serve and waits until it is healthy.
func (d *demo) startServer(ctx context.Context) (string, error) {
	cmd := exec.Command(filepath.Join(d.bin, "certharbor"), "serve",
		"--listen", d.listen, "--data", d.dataFolder(), "--webhook-allow-cidrs", "127.0.0.0/8",
		// The ACME server is on loopback too, where only an operator may let CertHarbor call.
		"--acme-allow-cidrs", "127.0.0.0/8", "--log-format", "text")
	server, err := d.children.start("certharbor", cmd)
	if err != nil {
		return "", err
	}
	if d.api, err = newAPI("http://" + d.listen); err != nil {
		return "", err
	}
	var health struct {
		Status  string
		Version string
	}
	_, err = eventually(ctx, func() (struct{}, error) {
		select {
		case <-server.done:
			return struct{}{}, permanent{fmt.Errorf("certharbor serve ended: %w, see certharbor.log", server.err)}
		default:
			return struct{}{}, d.api.call(ctx, http.MethodGet, "/health", nil, &health)
		}
	})
	if err != nil {
		return "", err
	}
	if health.Status != "ok" {
		return "", fmt.Errorf("/health says status %q", health.Status)
	}
	return fmt.Sprintf("%s, version %s", d.api.base, health.Version), nil
}

// signIn gets a session cookie and sees that it counts; a wrong password must not give one.
func (d *demo) signIn(ctx context.Context) (string, error) {
	login := map[string]any{"action": "login", "email": email, "password": d.password + "x"}
	if err := d.api.call(ctx, http.MethodPost, "/auth/general", login, nil); err == nil {
		return "", errors.New("a wrong password was accepted")
	}
	login["password"] = d.password
	if err := d.api.call(ctx, http.MethodPost, "/auth/general", login, nil); err != nil {
		return "", err
	}
	var status struct {
		Authenticated bool
		User          struct{ ID int64 }
	}
	if err := d.api.call(ctx, http.MethodGet, "/auth/status", nil, &status); err != nil {
		return "", err
	}
	if !status.Authenticated {
		return "", errors.New("/auth/status says not authenticated after the login")
	}
	return fmt.Sprintf("session of user %d", status.User.ID), nil
}

// freePort finds a port of 127.0.0.1 that nobody listens on at the moment.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return strconv.Atoi(port)
}
