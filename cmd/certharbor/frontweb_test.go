package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// holdBack serves l and passes every request on to address. While nobody
// listens there it holds the request back, as the network before a host that is
// being restarted does: an authority that cannot connect gives up at once, and
// the order with it.
func holdBack(t *testing.T, l net.Listener, address string, moment func()) {
	t.Helper()
	front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		moment()
		var response *http.Response
		for tick := time.NewTicker(5 * time.Millisecond); response == nil; {
			out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+address+r.URL.RequestURI(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			out.Host = r.Host
			if response, err = http.DefaultTransport.RoundTrip(out); err == nil {
				break
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
		defer response.Body.Close()
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
		moment()
	})}
	go func() { _ = front.Serve(l) }()
	t.Cleanup(func() { _ = front.Close() })
}

// receiver is a webhook receiver. It verifies signatures and remembers under
// which delivery ids each issue was told.
type receiver struct {
	*httptest.Server

	mu         sync.Mutex
	deliveries map[int64]map[string]bool // issue_history_id → X-BB-Delivery-Id
}

func newReceiver(t *testing.T, moment func()) *receiver {
	t.Helper()
	r := &receiver{deliveries: map[int64]map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the server died while it sent
		}
		mac := hmac.New(sha256.New, []byte(webhookSecret))
		fmt.Fprintf(mac, "%s.%s", req.Header.Get("X-BB-Timestamp"), body)
		if got := req.Header.Get("X-BB-Signature"); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("signature %q of %s", got, body)
		}
		issue, err := strconv.ParseInt(req.Header.Get("X-BB-Issue-History-Id"), 10, 64)
		if err != nil {
			t.Error(err)
		}
		moment()
		r.note(issue, req.Header.Get("X-BB-Delivery-Id"))
		w.WriteHeader(http.StatusNoContent)
		moment()
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) note(issue int64, delivery string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deliveries[issue] == nil {
		r.deliveries[issue] = map[string]bool{}
	}
	r.deliveries[issue][delivery] = true
}

// ids is under how many delivery ids an issue was told.
func (r *receiver) ids(issue int64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.deliveries[issue])
}

// freePort finds a port that outlives a restart: outside of the range from
// which the kernel gives ports to others.
func freePort(t *testing.T) string {
	t.Helper()
	for port := 20000 + time.Now().Nanosecond()%10000; port < 32000; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}
