package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// createWebhook starts the receiver with a fresh secret and registers it.
func (d *demo) createWebhook(ctx context.Context) (string, error) {
	d.secret = rand.Text()
	cmd := exec.Command(filepath.Join(d.bin, "demo", "webhookreceiver"), "-output", d.deliveriesFile())
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+d.secret)
	receiver, err := d.children.start("webhookreceiver", cmd)
	if err != nil {
		return "", err
	}
	address, err := receiver.line(ctx, receiver.output, "listening ")
	if err != nil {
		return "", err
	}
	d.webhookURL = "http://" + address + "/certharbor"
	var webhook struct{ ID int64 }
	err = d.api.call(ctx, http.MethodPost, "/apiv1/me/service_webhooks", map[string]any{
		"url": d.webhookURL, "event_key": "certificate.issued", "secret": d.secret,
		"scope": map[string]any{"type": "cert_id", "cert_id": d.certID},
	}, &webhook)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("webhook %d to %s", webhook.ID, d.webhookURL), nil
}

func (d *demo) deliveriesFile() string { return filepath.Join(d.folder, "deliveries.jsonl") }

func (d *demo) firstDelivery(ctx context.Context) (string, error) { return d.awaitDeliveries(ctx, 1) }

func (d *demo) secondDelivery(ctx context.Context) (string, error) { return d.awaitDeliveries(ctx, 2) }

// awaitDeliveries waits for n deliveries with different ids; each must have been signed and be about
// our certificate.
func (d *demo) awaitDeliveries(ctx context.Context, n int) (string, error) {
	return eventually(ctx, func() (string, error) {
		content, err := os.ReadFile(d.deliveriesFile())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", permanent{fmt.Errorf("read deliveries: %w", err)}
		}
		seen := map[string]bool{}
		last := ""
		for decoder := json.NewDecoder(bytes.NewReader(content)); decoder.More(); {
			var delivery struct {
				Valid      bool
				Problem    string
				Event      string
				DeliveryID string `json:"delivery_id"`
				Body       struct {
					CertID         int64 `json:"cert_id"`
					IssueHistoryID int64 `json:"issue_history_id"`
				}
			}
			if err := decoder.Decode(&delivery); err != nil {
				return "", fmt.Errorf("read deliveries: %w", err) // a line that is being written
			}
			if !delivery.Valid || delivery.Event != "certificate.issued" || delivery.Body.CertID != d.certID {
				return "", permanent{fmt.Errorf("unexpected delivery: %+v", delivery)}
			}
			seen[delivery.DeliveryID] = true
			last = fmt.Sprintf("delivery %s of history row %d", delivery.DeliveryID, delivery.Body.IssueHistoryID)
		}
		if len(seen) < n {
			return "", fmt.Errorf("%d deliveries, want %d", len(seen), n)
		}
		return last, nil
	})
}
