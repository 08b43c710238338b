package apptest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// recorder collects every secret that a program is given or hands out, whatever
// test talks to it, so that the end of the test can look for them where none may
// be. It sits around the handler, where no client passes by.
type recorder struct {
	mu    sync.Mutex
	Found map[string]string // the secret → what it is
	Given bool              // what clients send counts as well
}

const recorded = 256 << 10 // bytes of a body that are looked at

// secretMembers are the members of JSON that hold one. In requests they count
// when the request succeeds: what was refused proves nothing.
var secretMembers = regexp.MustCompile(`"(token|access_token|refresh_token|registration_code|device_code|user_code|challenge|message|url|password|new_password|verify_code|secret|eab_hmac_key|push_token|private_key_pem|private_key_der_b64)":("(?:[^"\\]|\\.)*")`)

// shortSecrets are codes of mails and user codes.
var shortSecrets = regexp.MustCompile(`^([0-9]{6}|[A-Z0-9]{4}-[A-Z0-9]{4})$`)

// wrap watches what goes in and out.
func (k *recorder) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &tee{ResponseWriter: w, status: http.StatusOK}
		var sent bytes.Buffer
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &teeBody{r.Body, &sent}
		}
		query := r.URL.Query()
		defer func() {
			k.answer(t.Header(), t.body.Bytes())
			if t.status < 400 && k.Given {
				k.members(sent.Bytes())
				for _, name := range []string{"code", "state", "token", "signature"} {
					k.add(name+" in a query", query.Get(name))
				}
			}
		}()
		next.ServeHTTP(t, r)
	})
}

// answer looks through an answer of any status: what was handed out, was.
func (k *recorder) answer(header http.Header, body []byte) {
	for _, cookie := range header["Set-Cookie"] {
		pair, _, _ := strings.Cut(cookie, ";")
		name, value, _ := strings.Cut(pair, "=")
		k.add("cookie "+name, value)
	}
	k.add("export password", header.Get("X-Export-Password"))
	k.link(header.Get("Location"))
	k.members(body)
	k.privateKeys(body)
}

func (k *recorder) members(body []byte) {
	if bytes.HasPrefix(body, []byte(`{"error":`)) { // most answers of these tests, and nothing is handed out in one
		return
	}
	for _, match := range secretMembers.FindAllSubmatch(body, -1) {
		name := string(match[1])
		var value string
		if json.Unmarshal(match[2], &value) != nil {
			continue
		}
		switch name {
		case "url":
			k.link(value)
		case "message":
			if _, nonce, ok := strings.Cut(value, "Nonce: "); ok {
				nonce, _, _ = strings.Cut(nonce, "\n")
				k.add("nonce", nonce)
			}
		case "private_key_pem":
			k.privateKeys([]byte(value))
		default:
			k.add(name, value)
		}
	}
}

// link takes what a URL to a provider carries.
func (k *recorder) link(text string) {
	u, err := url.Parse(text)
	if err != nil || u.RawQuery == "" {
		return
	}
	for _, name := range []string{"state", "nonce"} {
		k.add(name+" of a link", u.Query().Get(name))
	}
}

// privateKeys takes the secret numbers out of PEM.
func (k *recorder) privateKeys(text []byte) {
	for bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		block, rest := pem.Decode(text)
		if block == nil {
			return
		}
		text = rest
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if ec, ok := key.(*ecdsa.PrivateKey); ok {
				raw, _ := ec.Bytes()
				k.add("private key", string(raw))
			}
		}
	}
}

// add keeps a secret by the part of it that nobody may know: an API key begins
// with what lists show, a refresh token with what finds its row, and of a JWT
// only the signature cannot be guessed.
func (k *recorder) add(what, value string) {
	if parts := strings.Split(value, "."); len(parts) == 3 && strings.HasPrefix(value, "ey") {
		value = parts[2]
	}
	if strings.HasPrefix(value, "ak_") && len(value) > 8 {
		value = value[8:]
	}
	if rest, ok := strings.CutPrefix(value, "rt_"); ok {
		_, value, _ = strings.Cut(rest, ".")
	}
	value = strings.TrimPrefix(value, "dc_")
	short := shortSecrets.MatchString(value)
	if !short && (len(value) < 12 || Distinct(value) < 8) { // "http-01" is a challenge as well
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Found[value] = what
}

func Distinct(text string) int {
	seen := map[byte]bool{}
	for i := range len(text) {
		seen[text[i]] = true
	}
	return len(seen)
}

// tee keeps the beginning of what is written.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// Unwrap serves http.ResponseController.
func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (t *tee) WriteHeader(status int) {
	t.status = status
	t.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (t *tee) Write(b []byte) (int, error) {
	t.body.Write(b[:min(len(b), max(0, recorded-t.body.Len()))])
	return t.ResponseWriter.Write(b)
}

// teeBody keeps the beginning of what is read.
type teeBody struct {
	io.ReadCloser
	into *bytes.Buffer
}

// Read implements io.Reader.
func (t *teeBody) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	t.into.Write(b[:min(n, max(0, recorded-t.into.Len()))])
	return n, err
}
