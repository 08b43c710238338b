package main

import (
	"context"
	"time"
)

const (
	email = "operator@demo.test"
	// domain is only ever resolved by the ACME server's own DNS helper, which answers 127.0.0.1.
	domain = "www.demo.test"
)

// demo is what the steps share; each step fills in what later ones need.
type demo struct {
	bin, folder string
	lifetime    time.Duration
	children    *children

	acme struct { // the first line of tools/acmeserver
		DirectoryURL  string `json:"directory_url"`
		CABundlePEM   string `json:"ca_bundle_pem"`
		IssuerRootPEM string `json:"issuer_root_pem"`
	}
	listen      string // CertHarbor's address
	api         *api
	password    string
	accountID   int64
	certID      int64
	secret      string // of the webhook
	webhookURL  string
	deviceID    int64
	tlsAddress  string
	firstSerial string
}

// step is one line of the table; run returns what it saw.
type step struct {
	what string
	run  func(context.Context) (seen string, err error)
}

func (d *demo) steps() []step {
	return []step{
		{"ACME server (Pebble) and its DNS helper", d.startACME},
		{"first user, made on the command line", d.createUser},
		{"CertHarbor on an embedded database", d.startServer},
		{"sign in", d.signIn},
		{"ACME account", d.createAccount},
		{"certificate record", d.createCertificate},
		{"webhook and its receiver", d.createWebhook},
		{"issuance over HTTP-01", d.issue},
		{"webhook received, signature verified", d.firstDelivery},
		{"agent login, approved by the user", d.enrolDevice},
		{"TLS service without a certificate", d.startTLSService},
		{"certificate assigned to the device", d.assign},
		{"install configuration: copy and reload", d.configure},
		{"agent installs, TLS service shows the serial", d.startAgent},
		{"renewal by itself", d.awaitRenewal},
		{"webhook of the renewal", d.secondDelivery},
		{"TLS service shows the new serial", d.awaitNewSerial},
	}
}
