package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// observe returns every object of the writer's user as the server shows it, by
// the names that the ledger has for them.
func (w *writer) observe(ctx context.Context, found map[string]seen) error {
	var hooks []struct {
		ID    int64
		URL   string
		Scope struct{ Domain string }
	}
	var accounts []struct {
		ID    int64
		Name  string
		Email string
	}
	var certs []struct {
		ID           int64
		Organization string
		Status       string
	}
	var devices []struct {
		ID       int64
		PublicID string `json:"device_public_id"`
		Status   string
	}
	for path, list := range map[string]any{"service_webhooks": &hooks, "acme-accounts": &accounts, "certificates": &certs, "devices": &devices} {
		if err := w.me.call(ctx, "GET", "/apiv1/me/"+path+"?limit=1000", nil, http.StatusOK, list); err != nil {
			return err
		}
	}
	for _, h := range hooks {
		found["webhook "+h.URL[strings.LastIndexByte(h.URL, '/')+1:]] = seen{h.ID, h.Scope.Domain}
	}
	for _, a := range accounts {
		number, _, _ := strings.Cut(a.Email, "@")
		found["account "+number[1:]] = seen{a.ID, a.Name}
	}
	numbers := map[int64]string{}
	for _, c := range certs {
		numbers[c.ID] = c.Organization
		found["certificate "+c.Organization] = seen{c.ID, map[bool]string{true: "imported", false: c.Status}[c.Status == "ACTIVE"]}
	}
	for _, d := range devices {
		var n int64
		if _, err := fmt.Sscanf(d.PublicID, "%08x", &n); err != nil {
			return fmt.Errorf("device_public_id %s: %w", d.PublicID, err)
		}
		found[fmt.Sprintf("device %d", n)] = seen{d.ID, d.Status}
		if err := w.observeDevice(ctx, n, d.ID, numbers, found); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) observeDevice(ctx context.Context, n, id int64, certNumbers map[int64]string, found map[string]seen) error {
	path := fmt.Sprintf("/apiv1/me/devices/%d/", id)
	var config struct {
		Version  int64
		Installs []struct{ Cmd string }
	}
	if err := w.me.call(ctx, "GET", path+"install-config", nil, http.StatusOK, &config); err != nil {
		return err
	}
	if config.Version > 0 && len(config.Installs) == 1 {
		found[fmt.Sprintf("install %d", n)] = seen{0, config.Installs[0].Cmd}
		var version struct{ Installs []struct{ Cmd string } }
		if err := w.me.call(ctx, "GET", fmt.Sprintf("%sinstall-config-histories?version=%d", path, config.Version), nil, http.StatusOK, &version); err != nil {
			return err
		}
		if len(version.Installs) != 1 || version.Installs[0] != config.Installs[0] {
			return fmt.Errorf("install-config %d of device %d is %v, its history says %v", config.Version, id, config.Installs, version.Installs)
		}
	}
	var assigned []struct{ ID int64 }
	if err := w.me.call(ctx, "GET", path+"certificates", nil, http.StatusOK, &assigned); err != nil {
		return err
	}
	for _, c := range assigned {
		found["assignment "+certNumbers[c.ID]] = seen{c.ID, "assigned"}
		// The wrap belongs to the assignment.
		if err := w.me.call(ctx, "GET", fmt.Sprintf("%scertificates/%d/bundle", path, c.ID), nil, http.StatusOK, nil); err != nil {
			return err
		}
	}
	return nil
}
