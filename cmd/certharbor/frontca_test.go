package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"certharbor.dev/certharbor/internal/acmetest"
)

// frontCA stands before Pebble: it sees every order, and calls moment before a
// request is passed on, before its answer is, and after it was. Pebble builds
// its URLs from the Host header, so all of them lead here.
type frontCA struct {
	*httptest.Server
	t      *testing.T
	pebble *url.URL
	client *http.Client
	moment func()
	begun  atomic.Int64 // requests

	mu     sync.Mutex
	orders map[string]*orderSeen // by their URL
}

// orderSeen is an order that Pebble made.
type orderSeen struct {
	name      string // its first identifier
	finalize  string // path
	finalized int    // how often Pebble accepted a CSR for it
}

func newFrontCA(t *testing.T, pebble *acmetest.Server, moment func()) *frontCA {
	t.Helper()
	target, err := url.Parse(pebble.DirectoryURL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(pebble.CABundlePEM)) {
		t.Fatal("no root")
	}
	f := &frontCA{t: t, pebble: target, moment: moment, orders: map[string]*orderSeen{}}
	f.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 16}}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the kill cuts off
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

// directory is the URL of the directory, bundle the root of its certificate.
func (f *frontCA) directory() string { return f.URL + f.pebble.Path }

func (f *frontCA) bundle() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}))
}

// ServeHTTP implements http.Handler. What was passed on is carried out although
// the caller dies meanwhile: its answer is lost then, as on a real network.
func (f *frontCA) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller died while it sent
	}
	f.begun.Add(1)
	f.moment()
	out, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, "https://"+f.pebble.Host+r.URL.RequestURI(), strings.NewReader(string(body)))
	if err != nil {
		f.t.Error(err)
		return
	}
	out.Host, out.Header = r.Host, r.Header.Clone()
	response, err := f.client.Do(out)
	if err != nil {
		f.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		return
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		return
	}
	f.note(r, body, response, received)
	f.moment()
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(received)
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
	f.moment()
}

// note remembers new orders and accepted CSRs.
func (f *frontCA) note(r *http.Request, body []byte, response *http.Response, received []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method != http.MethodPost || response.StatusCode/100 != 2 {
		return
	}
	if response.StatusCode == http.StatusCreated {
		var jws struct{ Payload string }
		var order struct{ Identifiers []struct{ Value string } }
		var made struct{ Finalize string }
		if json.Unmarshal(body, &jws) == nil {
			if payload, err := base64.RawURLEncoding.DecodeString(jws.Payload); err == nil && json.Unmarshal(payload, &order) == nil &&
				len(order.Identifiers) > 0 && json.Unmarshal(received, &made) == nil {
				f.orders[response.Header.Get("Location")] = &orderSeen{name: order.Identifiers[0].Value, finalize: strings.TrimPrefix(made.Finalize, f.URL)}
				return
			}
		}
	}
	for _, o := range f.orders {
		if o.finalize == r.URL.Path {
			o.finalized++
		}
	}
}

// of returns the URLs of the orders for a name, and of those that got a CSR.
func (f *frontCA) of(name string) (all, finalized []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for address, o := range f.orders {
		if o.name != name {
			continue
		}
		all = append(all, address)
		if o.finalized > 0 {
			finalized = append(finalized, address)
		}
	}
	slices.Sort(all)
	return all, finalized
}
