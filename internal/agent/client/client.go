package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	stepTimeout = 30 * time.Second
	maxAnswer   = 4 << 20
)

// Client sends single requests to one server. It is safe for concurrent use.
type Client struct {
	base      string
	http      *http.Client
	userAgent string
}

// Options change what New makes.
type Options struct {
	CAFile   string // PEM file of certificates to trust beside the system's; "" = none
	Version  string // of the agent, for the User-Agent header
	Insecure bool   // plain http:// may leave this machine
}

// ErrInsecure is wrapped by New when the way to the server is not encrypted:
// who is on it reads the tokens and decides what is installed and run here.
var ErrInsecure = errors.New("is reached without encryption, and who is on the way could run commands on this device: " +
	"use https://, or give --insecure if you trust every machine in between")

// New makes a client of the server at base, an http or https URL without
// query. Plain http is for a server on this machine.
func New(base string, opt Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("server %q: give an address such as https://certs.example.com", base)
	}
	if u.Scheme == "http" && !opt.Insecure && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("server %q %w", base, ErrInsecure)
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("default transport was replaced")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if opt.CAFile != "" {
		pool, err := poolWith(opt.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &Client{
		base:      strings.TrimRight(base, "/"),
		userAgent: "certharbor-agent/" + opt.Version,
		http:      &http.Client{Transport: transport, CheckRedirect: onlyReadsOnSameHost},
	}, nil
}

// loopback says whether a host name is this machine's own. Of names that is
// localhost alone: any other is what the network says it is.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// maxCAFile bounds the file of --ca-file; a whole system's store has 300 KiB.
const maxCAFile = 1 << 20

func poolWith(caFile string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	file, err := os.Open(caFile)
	if err != nil {
		return nil, fmt.Errorf("read --ca-file: %w", err)
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	text, err := io.ReadAll(io.LimitReader(file, maxCAFile+1))
	if err != nil {
		return nil, fmt.Errorf("read --ca-file: %w", err)
	}
	if len(text) > maxCAFile {
		return nil, fmt.Errorf("--ca-file %s is larger than 1 MiB: name a file of certificates", caFile)
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--ca-file %s holds no PEM certificate", caFile)
	}
	return pool, nil
}

// onlyReadsOnSameHost keeps tokens from travelling to another host, or without
// encryption because an answer says so.
func onlyReadsOnSameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || (req.Method != http.MethodGet && req.Method != http.MethodHead) || req.Method != first.Method ||
		req.URL.Host != first.URL.Host || req.URL.Scheme != "https" {
		return fmt.Errorf("redirect to %s://%s is not followed: check the server's address", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// request is one call. body, when not nil, is sent as JSON.
type request struct {
	op, method, path string
	token            string
	ifNoneMatch      string
	body             any
	timeout          time.Duration // 0 = 30 s
}

// answer is a 2xx response. data is nil for 204.
type answer struct {
	status int
	header http.Header
	data   json.RawMessage
}

func (c *Client) do(ctx context.Context, r request) (*answer, error) {
	if r.timeout == 0 {
		r.timeout = stepTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := c.build(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.op, err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &Unavailable{Op: r.op, Err: err}
	}
	defer res.Body.Close() //nolint:errcheck // read to its end or given up
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, &Unavailable{Op: r.op, Err: err}
	}
	if len(body) > maxAnswer {
		return nil, &Unavailable{Op: r.op, Answered: true, Err: errors.New("the answer is larger than 4 MiB")}
	}
	return read(r.op, res, body)
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept", "application/json")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.ifNoneMatch != "" {
		req.Header.Set("If-None-Match", `"`+r.ifNoneMatch+`"`)
	}
	return req, nil
}

func read(op string, res *http.Response, body []byte) (*answer, error) {
	if res.StatusCode >= 400 {
		return nil, newError(op, res.StatusCode, res.Header, body)
	}
	a := &answer{status: res.StatusCode, header: res.Header}
	if res.StatusCode == http.StatusNoContent {
		return a, nil
	}
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil || res.StatusCode >= 300 || envelope.Data == nil {
		return nil, &Unavailable{Op: op, Answered: true, Err: fmt.Errorf("status %d without the API's data: is this a CertHarbor server?", res.StatusCode)}
	}
	a.data = envelope.Data
	return a, nil
}

// into decodes the data member into v.
func (a *answer) into(op string, v any) error {
	if a.data == nil {
		return &Unavailable{Op: op, Answered: true, Err: errors.New("the answer is empty")}
	}
	if err := json.Unmarshal(a.data, v); err != nil {
		return &Unavailable{Op: op, Answered: true, Err: fmt.Errorf("the answer is not as the API says: %w", err)}
	}
	return nil
}
