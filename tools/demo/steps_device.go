package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

func (d *demo) agentCommand(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(d.bin, "certharbor-agent"),
		append(args, "--state", filepath.Join(d.folder, "agent"))...)
}

// enrolDevice runs certharbor-agent login, reads the user code it prints and approves it, as the
// signed-in user would on the page the agent names.
func (d *demo) enrolDevice(ctx context.Context) (string, error) {
	login, err := d.children.start("agent-login", d.agentCommand("login", "--server", d.api.base))
	if err != nil {
		return "", err
	}
	pattern := regexp.MustCompile(`\b[A-Z0-9]{4}-[A-Z0-9]{4}\b`)
	code, err := eventually(ctx, func() (string, error) {
		content, err := os.ReadFile(login.output)
		if err != nil {
			return "", fmt.Errorf("read output: %w", err)
		}
		if code := pattern.Find(content); code != nil {
			return string(code), nil
		}
		return "", fmt.Errorf("agent login printed no user code: %s", content)
	})
	if err != nil {
		return "", err
	}
	err = d.api.call(ctx, http.MethodPost, "/auth/device",
		map[string]any{"action": "device_verify", "user_code": code, "approve": true}, nil)
	if err != nil {
		return "", err
	}
	select {
	case <-login.done:
	case <-ctx.Done():
		return "", errors.New("agent login did not end after the approval")
	}
	if login.err != nil {
		return "", fmt.Errorf("agent login: %w, see agent-login.log", login.err)
	}

	var devices []struct {
		ID       int64
		Status   string
		PublicID string `json:"device_public_id"`
	}
	if err := d.api.call(ctx, http.MethodGet, "/apiv1/me/devices", nil, &devices); err != nil {
		return "", err
	}
	if len(devices) != 1 || devices[0].Status != "ACTIVE" {
		return "", fmt.Errorf("want one active device, got %+v", devices)
	}
	d.deviceID = devices[0].ID
	return fmt.Sprintf("code %s, device %d", code, d.deviceID), nil
}

func (d *demo) assign(ctx context.Context) (string, error) {
	err := d.api.call(ctx, http.MethodPost, fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.deviceID),
		map[string]any{"cert_id": d.certID}, nil)
	return fmt.Sprintf("certificate %d to device %d", d.certID, d.deviceID), err
}

// configure tells the device where the files go and how the service reloads.
func (d *demo) configure(ctx context.Context) (string, error) {
	installs := []map[string]any{
		{
			"id": "copy", "type": "copy", "ob_type": "cert", "ob_id": d.certID,
			"from": []string{"fullchain.pem", "private.key"}, "to": []string{d.certFile(), d.keyFile()},
		},
		{
			"id": "reload", "type": "exec", "depends_on": []string{"copy"}, "timeout_ms": 5000,
			"cmd": fmt.Sprintf("kill -HUP $(cat '%s')", d.pidFile()),
		},
	}
	path := fmt.Sprintf("/apiv1/me/devices/%d/install-config", d.deviceID)
	if err := d.api.call(ctx, http.MethodPut, path, map[string]any{"installs": installs, "change_note": "demo"}, nil); err != nil {
		return "", err
	}
	var config struct {
		Version  int64
		Installs []any
	}
	if err := d.api.call(ctx, http.MethodGet, path, nil, &config); err != nil {
		return "", err
	}
	if config.Version != 1 || len(config.Installs) != len(installs) {
		return "", fmt.Errorf("version %d with %d items, want version 1 with %d", config.Version, len(config.Installs), len(installs))
	}
	return fmt.Sprintf("version %d", config.Version), nil
}

// startAgent starts the agent's daemon and waits until the TLS service shows the certificate of the
// record. What it shows then is the serial that a renewal has to replace.
func (d *demo) startAgent(ctx context.Context) (string, error) {
	agent, err := d.children.start("agent", d.agentCommand("run"))
	if err != nil {
		return "", err
	}
	return eventually(ctx, func() (string, error) {
		select {
		case <-agent.done:
			return "", permanent{fmt.Errorf("agent ended: %w, see agent.log", agent.err)}
		default:
		}
		shown, err := d.shownSerial(ctx)
		if err != nil {
			return "", err
		}
		current, err := d.currentSerial(ctx)
		if err != nil {
			return "", permanent{err}
		}
		if shown != current {
			return "", fmt.Errorf("the TLS service shows %s, want %s", shown, current)
		}
		d.firstSerial = shown
		return "serial " + shown, nil
	})
}
