package main

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// options is the first line on standard input.
type options struct {
	// HTTPPort and TLSPort are where HTTP-01 and TLS-ALPN-01 validation connects to.
	HTTPPort int `json:"http_port"`
	TLSPort  int `json:"tls_port"`
	// Profiles maps profile names to certificate lifetimes in seconds; empty: one profile
	// "default" of 90 days.
	Profiles map[string]uint64 `json:"profiles"`
	// KeyAlgorithm of Pebble's own CA keys, "ecdsa" (default) or "rsa".
	KeyAlgorithm string `json:"key_algorithm"`
	// RetryAfterAuthz and RetryAfterOrder are Retry-After values in seconds; 0 sends none.
	RetryAfterAuthz int `json:"retry_after_authz"`
	RetryAfterOrder int `json:"retry_after_order"`
	// EABKeys maps key ids to base64url HMAC keys; not empty: external account binding (RFC 8555
	// section 7.3.4) is required.
	EABKeys map[string]string `json:"eab_keys"`
	// Blocklist names are refused with rejectedIdentifier when an order is placed.
	Blocklist []string `json:"blocklist"`
	// Strict switches on Pebble's strict mode.
	Strict bool `json:"strict"`
}

// ready is the first line on standard output.
type ready struct {
	DirectoryURL  string `json:"directory_url"`
	ManagementURL string `json:"management_url"`
	// CABundlePEM is the root that signed the TLS certificate of both URLs.
	CABundlePEM string `json:"ca_bundle_pem"`
	// IssuerRootPEM is the root of the certificates that Pebble issues.
	IssuerRootPEM string `json:"issuer_root_pem"`
	// DNSAddress is host:port of the DNS helper, TCP and UDP.
	DNSAddress string `json:"dns_address"`
}

// startPebble builds Pebble as its cmd/pebble does and serves it on two ports of 127.0.0.1.
func startPebble(logger *log.Logger, opts options, dnsAddress string) (ready, error) {
	store := db.NewMemoryStore()
	for id, key := range opts.EABKeys {
		if _, err := base64.RawURLEncoding.DecodeString(key); err != nil {
			return ready{}, fmt.Errorf("EAB key %q is not base64url: %w", id, err)
		}
		if err := store.AddExternalAccountKeyByID(id, key); err != nil {
			return ready{}, fmt.Errorf("add EAB key %q: %w", id, err)
		}
	}
	for _, name := range opts.Blocklist {
		if err := store.AddBlockedDomain(name); err != nil {
			return ready{}, fmt.Errorf("block %q: %w", name, err)
		}
	}

	issuer := ca.New(logger, store, "", keyAlgorithm(opts), 0, chainLength(), profiles(opts))
	validator := va.New(logger, opts.HTTPPort, opts.TLSPort, opts.Strict, dnsAddress, store)
	front := wfe.New(logger, store, validator, issuer, []string{"pebble.letsencrypt.org"},
		opts.Strict, len(opts.EABKeys) > 0, opts.RetryAfterAuthz, opts.RetryAfterOrder)

	certificate, root, err := serverCertificate()
	if err != nil {
		return ready{}, err
	}
	directory, err := serveTLS(logger, certificate, front.Handler())
	if err != nil {
		return ready{}, err
	}
	management, err := serveTLS(logger, certificate, front.ManagementHandler())
	if err != nil {
		return ready{}, err
	}
	return ready{
		DirectoryURL:  directory + wfe.DirectoryPath,
		ManagementURL: management,
		CABundlePEM:   root,
		IssuerRootPEM: string(issuer.GetRootCert(0).PEM()),
		DNSAddress:    dnsAddress,
	}, nil
}

func keyAlgorithm(opts options) string {
	if opts.KeyAlgorithm == "" {
		return "ecdsa"
	}
	return opts.KeyAlgorithm
}

// chainLength reads PEBBLE_CHAIN_LENGTH, as cmd/pebble does.
func chainLength() int {
	n, err := strconv.Atoi(os.Getenv("PEBBLE_CHAIN_LENGTH"))
	if err != nil || n < 0 {
		return 1
	}
	return n
}

func profiles(opts options) map[string]ca.Profile {
	out := map[string]ca.Profile{}
	for name, seconds := range opts.Profiles {
		out[name] = ca.Profile{Description: "test profile " + name, ValidityPeriod: seconds}
	}
	if len(out) == 0 {
		out["default"] = ca.Profile{Description: "the default profile"}
	}
	return out
}

// serveTLS serves h on a free port of 127.0.0.1 until the process ends and returns its URL.
func serveTLS(logger *log.Logger, certificate tls.Certificate, h http.Handler) (string, error) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{"http/1.1"},
		MinVersion:   tls.VersionTLS12,
	})
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ErrorLog: logger, ReadHeaderTimeout: time.Minute}
	go func() { logger.Print(server.Serve(listener)) }()
	return "https://" + listener.Addr().String(), nil
}
