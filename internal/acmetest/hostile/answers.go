package hostile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
)

// Honest answers as if nothing had been said, to let some requests pass in Next.
func Honest() Answer {
	return func(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc) { honest(w, r) }
}

// Problem answers a problem document; kind is the part of its type after
// "urn:ietf:params:acme:error:".
func Problem(status int, kind, detail string) Answer {
	return func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"type": "urn:ietf:params:acme:error:" + kind, "detail": detail, "status": status,
		})
	}
}

// BadNonce refuses the nonce (RFC 8555 section 6.5).
func BadNonce() Answer { return Problem(http.StatusBadRequest, "badNonce", "the nonce is not known") }

// Busy answers 429 rateLimited with Retry-After in seconds.
func Busy(retryAfter int) Answer {
	return func(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc) {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		Problem(http.StatusTooManyRequests, "rateLimited", "too many requests")(w, r, honest)
	}
}

// Broken answers 500 serverInternal.
func Broken() Answer {
	return Problem(http.StatusInternalServerError, "serverInternal", "something went wrong")
}

// Status answers a status with a text that is no problem document.
func Status(status int, text string) Answer {
	return func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { http.Error(w, text, status) }
}

// Body answers 200 with a body of a type.
func Body(contentType, body string) Answer {
	return func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// Garbage answers 200 with bytes that claim to be JSON.
func Garbage() Answer { return Body("application/json", "\x00\xff{]<<garbage from upstream>>") }

// HTML answers 200 with a page, as a captive portal does.
func HTML() Answer { return Body("text/html", "<html><body>Please log in</body></html>") }

// Huge answers 200 with n bytes that claim to be JSON.
func Huge(n int) Answer {
	return Body("application/json", `{"status":"`+strings.Repeat("a", n)+`"}`)
}

// Redirect answers 307 to a URL.
func Redirect(url string) Answer {
	return func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		http.Redirect(w, r, url, http.StatusTemporaryRedirect)
	}
}

// Hang answers nothing at all until the client gives up.
func Hang() Answer {
	return func(_ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		_, _ = io.Copy(io.Discard, r.Body) // the end of the body lets the server see the client leave
		<-r.Context().Done()
	}
}

// Close breaks the connection without an answer.
func Close() Answer {
	return func(http.ResponseWriter, *http.Request, http.HandlerFunc) { panic(http.ErrAbortHandler) }
}

// CloseAfter performs the step and breaks the connection without an answer.
func CloseAfter() Answer {
	return func(_ http.ResponseWriter, r *http.Request, honest http.HandlerFunc) {
		honest(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
}

// Truncated performs the step and gives half of its answer as if it were all.
func Truncated() Answer {
	return Changed(func(body []byte) []byte { return body[:len(body)/2] })
}

// Changed performs the step and changes the body of its answer.
func Changed(change func(body []byte) []byte) Answer {
	return func(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc) {
		record := httptest.NewRecorder()
		honest(record, r)
		maps.Copy(w.Header(), record.Header())
		w.WriteHeader(record.Code)
		_, _ = w.Write(change(record.Body.Bytes()))
	}
}

// With performs the step and sets members of its JSON answer; nil removes one.
func With(members map[string]any) Answer {
	return Changed(func(body []byte) []byte {
		var all map[string]any
		if json.Unmarshal(body, &all) != nil {
			return body
		}
		for name, value := range members {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		out, err := json.Marshal(all)
		if err != nil {
			return body
		}
		return out
	})
}

// Header performs the step and sets a header of its answer.
func Header(name, value string) Answer {
	return func(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc) {
		w.Header().Set(name, value)
		honest(w, r)
	}
}

// Token performs an authorization step with another http-01 token.
func Token(token string) Answer {
	return Changed(func(body []byte) []byte {
		var all struct {
			Status     string           `json:"status"`
			Identifier identifier       `json:"identifier"`
			Challenges []map[string]any `json:"challenges"`
		}
		if json.Unmarshal(body, &all) != nil || len(all.Challenges) == 0 {
			return body
		}
		all.Challenges[0]["token"] = token
		out, err := json.Marshal(all)
		if err != nil {
			return body
		}
		return out
	})
}

// Invalid answers an authorization whose challenge failed with a problem.
func Invalid(name, kind, detail string) Answer {
	problem := map[string]any{"type": "urn:ietf:params:acme:error:" + kind, "detail": detail, "status": 400}
	return With(map[string]any{
		"status": "invalid", "identifier": identifier{"dns", name},
		"challenges": []any{map[string]any{
			"type": "http-01", "status": "invalid", "token": "token_for_a_failure_", "url": "https://127.0.0.1/", "error": problem,
		}},
	})
}

// WrongKey answers a certificate for the order's names and another key.
func (ca *CA) WrongKey() Answer {
	return func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		ca.mu.Lock()
		defer ca.mu.Unlock()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		o, _ := ca.find(r.URL.Path)
		if err != nil || o == nil {
			Status(http.StatusNotFound, "no such order")(w, r, nil)
			return
		}
		chain, err := ca.issue(o, key.Public())
		if err != nil {
			Status(http.StatusInternalServerError, err.Error())(w, r, nil)
			return
		}
		Body("application/pem-certificate-chain", chain)(w, r, nil)
	}
}

// OtherNames answers a certificate for the right key and another name. It
// needs the public key of the CSR.
func (ca *CA) OtherNames(key any) Answer {
	return func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		ca.mu.Lock()
		defer ca.mu.Unlock()
		chain, err := ca.issue(&order{ids: []identifier{{"dns", "other.example"}}}, key)
		if err != nil {
			Status(http.StatusInternalServerError, err.Error())(w, r, nil)
			return
		}
		Body("application/pem-certificate-chain", chain)(w, r, nil)
	}
}

// EndlessChain answers the honest chain followed by its issuer n times.
func (ca *CA) EndlessChain(n int) Answer {
	return Changed(func(body []byte) []byte {
		return append(body, bytes.Repeat([]byte(ca.IssuerRootPEM), n)...)
	})
}

// Location performs the step and gives another Location header.
func Location(url string) Answer {
	return func(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc) {
		record := httptest.NewRecorder()
		honest(record, r)
		maps.Copy(w.Header(), record.Header())
		w.Header().Set("Location", url)
		w.WriteHeader(record.Code)
		_, _ = w.Write(record.Body.Bytes())
	}
}
