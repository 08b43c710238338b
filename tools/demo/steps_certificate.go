package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// createAccount makes the ACME account; it is registered at the authority with the first order.
func (d *demo) createAccount(ctx context.Context) (string, error) {
	var account struct{ ID int64 }
	err := d.api.call(ctx, http.MethodPost, "/apiv1/me/acme-accounts", map[string]any{
		"name": "demo authority", "email": email, "provider": "custom",
		"directory_url": d.acme.DirectoryURL, "ca_bundle_pem": d.acme.CABundlePEM,
	}, &account)
	if err != nil {
		return "", err
	}
	d.accountID = account.ID
	return fmt.Sprintf("account %d", account.ID), nil
}

func (d *demo) createCertificate(ctx context.Context) (string, error) {
	var certificate struct{ ID int64 }
	err := d.api.call(ctx, http.MethodPost, "/apiv1/me/certificates", map[string]any{
		"action": "create", "domain_name": domain, "sans": []string{domain}, "acct_id": d.accountID,
		"key_algorithm": "ECDSA", "policy": "HYBRID", "challenge": "http-01",
	}, &certificate)
	if err != nil {
		return "", err
	}
	d.certID = certificate.ID
	return fmt.Sprintf("certificate %d for %s", certificate.ID, domain), nil
}

// attempt is a row of the issuance history.
type attempt struct {
	ID           int64
	Status       string
	Trigger      string
	ErrorMessage string `json:"error_message"`
}

// issue starts an issuance and follows its history row to SUCCESS.
func (d *demo) issue(ctx context.Context) (string, error) {
	path := fmt.Sprintf("/apiv1/me/certificates/%d", d.certID)
	var started attempt
	if err := d.api.call(ctx, http.MethodPost, path+"/issues", map[string]any{}, &started); err != nil {
		return "", err
	}
	_, err := eventually(ctx, func() (struct{}, error) {
		var row attempt
		if err := d.api.call(ctx, http.MethodGet, fmt.Sprintf("%s/issues/%d", path, started.ID), nil, &row); err != nil {
			return struct{}{}, permanent{err}
		}
		switch row.Status {
		case "SUCCESS":
			return struct{}{}, nil
		case "PENDING", "PROCESSING":
			return struct{}{}, errors.New("issuance is " + row.Status)
		default:
			return struct{}{}, permanent{fmt.Errorf("issuance is %s: %s", row.Status, row.ErrorMessage)}
		}
	})
	if err != nil {
		return "", err
	}
	serial, err := d.currentSerial(ctx)
	return "serial " + serial, err
}

// currentSerial reads the certificate record and returns the serial number of its leaf, which the
// member serial_number must agree with.
func (d *demo) currentSerial(ctx context.Context) (string, error) {
	var record struct {
		SerialNumber string `json:"serial_number"`
		Cert         string
	}
	if err := d.api.call(ctx, http.MethodGet, fmt.Sprintf("/apiv1/me/certificates/%d", d.certID), nil, &record); err != nil {
		return "", err
	}
	leaf, err := firstCertificate(record.Cert)
	if err != nil {
		return "", fmt.Errorf("member cert: %w", err)
	}
	if serial := serialOf(leaf); sameSerial(serial, record.SerialNumber) {
		return serial, nil
	}
	return "", fmt.Errorf("serial_number is %s, but the leaf's is %s", record.SerialNumber, serialOf(leaf))
}

// awaitRenewal waits until the record has another serial than the TLS service was first seen with,
// and the history shows a success that the server started by itself.
func (d *demo) awaitRenewal(ctx context.Context) (string, error) {
	path := fmt.Sprintf("/apiv1/me/certificates/%d/issues/history", d.certID)
	return eventually(ctx, func() (string, error) {
		var rows []attempt
		if err := d.api.call(ctx, http.MethodGet, path, nil, &rows); err != nil {
			return "", permanent{err}
		}
		current, err := d.currentSerial(ctx)
		if err != nil {
			return "", permanent{err}
		}
		if current == d.firstSerial {
			return "", fmt.Errorf("not renewed, the history is %+v", rows)
		}
		for _, row := range rows {
			if row.Trigger == "renewal" && row.Status == "SUCCESS" {
				return fmt.Sprintf("history row %d", row.ID), nil
			}
		}
		return "", fmt.Errorf("no successful renewal in the history: %+v", rows)
	})
}
