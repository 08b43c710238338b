package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// delivery is one request as it was seen, one line of the output.
type delivery struct {
	ReceivedAt int64           `json:"received_at"` // Unix milliseconds
	Valid      bool            `json:"valid"`       // signature and freshness
	Problem    string          `json:"problem,omitempty"`
	Answered   string          `json:"answered"` // status code, hang or close
	Event      string          `json:"event"`
	WebhookID  string          `json:"webhook_id"`
	DeliveryID string          `json:"delivery_id"`
	Timestamp  string          `json:"timestamp"`
	UserAgent  string          `json:"user_agent"`
	Body       json.RawMessage `json:"body,omitempty"`
}

// receiver verifies, records and answers deliveries.
type receiver struct {
	secret []byte
	now    func() time.Time

	mu       sync.Mutex
	out      io.Writer
	failures []string // used up from the front
}

// parseFailures splits the -fail flag and checks every entry.
func parseFailures(list string) ([]string, error) {
	var out []string
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if status, err := strconv.Atoi(entry); entry != "hang" && entry != "close" &&
			(err != nil || status < 200 || status > 599) {
			return nil, fmt.Errorf("%q is neither a status code from 200 to 599 nor hang nor close", entry)
		}
		out = append(out, entry)
	}
	return out, nil
}

// ServeHTTP answers 204 to a valid delivery and 401 to any other, unless a failure is due.
func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "body not readable", http.StatusBadRequest)
		return
	}
	seen := delivery{
		ReceivedAt: rc.now().UnixMilli(),
		Event:      r.Header.Get("X-BB-Event"),
		WebhookID:  r.Header.Get("X-BB-Webhook-Id"),
		DeliveryID: r.Header.Get("X-BB-Delivery-Id"),
		Timestamp:  r.Header.Get("X-BB-Timestamp"),
		UserAgent:  r.UserAgent(),
	}
	if json.Valid(body) {
		seen.Body = body
	}
	seen.Answered = "204"
	if err := verify(rc.secret, seen.Timestamp, r.Header.Get("X-BB-Signature"), body, rc.now()); err != nil {
		seen.Problem, seen.Answered = err.Error(), "401"
	} else {
		seen.Valid = true
	}
	answer, err := rc.record(seen)
	if err != nil {
		http.Error(w, "cannot record", http.StatusInternalServerError)
		return
	}
	respond(w, r, answer)
}

// record takes the next failure, if one is due, and writes the line.
func (rc *receiver) record(seen delivery) (answer string, err error) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if len(rc.failures) > 0 {
		seen.Answered, rc.failures = rc.failures[0], rc.failures[1:]
	}
	if err := json.NewEncoder(rc.out).Encode(seen); err != nil {
		return "", fmt.Errorf("write delivery: %w", err)
	}
	return seen.Answered, nil
}

func respond(w http.ResponseWriter, r *http.Request, answer string) {
	switch answer {
	case "hang":
		<-r.Context().Done()
	case "close":
		panic(http.ErrAbortHandler) // net/http's way to drop the connection
	default:
		if strings.HasPrefix(answer, "3") {
			w.Header().Set("Location", "/elsewhere")
		}
		status, _ := strconv.Atoi(answer) // checked by parseFailures
		w.WriteHeader(status)
	}
}
