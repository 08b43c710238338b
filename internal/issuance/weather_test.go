package issuance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
)

const day = 24 * time.Hour

// weather is what a simulated authority is like at each time: gone for days,
// busy, or well with a limit of its own on orders.
type weather struct {
	w      *world
	ca     *hostile.CA
	start  time.Time
	limit  int // orders in three hours
	random *rand.Rand

	mu    sync.Mutex
	times []time.Time            // of all orders
	sets  map[string][]time.Time // of the orders for each set of names
	lost  int                    // requests during outages
	busy  int                    // requests that were refused with 429 outside of them
}

// The authority is away for 72 hours of every 60 days: those in which most
// certificates of 90 days that were issued in one day are due.
const (
	outageEvery = 60 * day
	outageTime  = 72 * time.Hour
)

// outage gives the number of the outage at a time, counted from 1, or 0.
func (s *weather) outage(now time.Time) int {
	since := now.Sub(s.start)
	if since%outageEvery < outageEvery-outageTime {
		return 0
	}
	return int(since/outageEvery) + 1
}

// begin makes the authority's answers depend on the time.
func (s *weather) begin() {
	for _, step := range hostile.Steps() {
		s.ca.Always(step, func(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc) {
			s.mu.Lock()
			defer s.mu.Unlock()
			now := s.w.time()
			if number := s.outage(now); number > 0 {
				s.lost++
				kinds := []hostile.Answer{
					hostile.Status(http.StatusServiceUnavailable, "<html>maintenance</html>"), hostile.Broken(), hostile.Busy(900), hostile.Garbage(),
				}
				kinds[number%len(kinds)](w, r, honest)
				return
			}
			if step == hostile.NewOrder && s.lately(now) >= s.limit || s.random.IntN(50) == 0 {
				s.busy++
				hostile.Busy(s.random.IntN(1200))(w, r, honest)
				return
			}
			if step == hostile.NewOrder {
				s.order(w, r, honest, now)
				return
			}
			honest(w, r)
		})
	}
}

func (s *weather) lately(now time.Time) int {
	n := 0
	for n < len(s.times) && now.Sub(s.times[len(s.times)-1-n]) < 3*time.Hour {
		n++
	}
	return n
}

// order books an order under its names, when it is one.
func (s *weather) order(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc, now time.Time) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.w.t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	before := s.ca.Orders()
	honest(w, r)
	if s.ca.Orders() == before {
		return // a nonce was refused
	}
	var jws struct{ Payload string }
	var order struct{ Identifiers []struct{ Value string } }
	if err := json.Unmarshal(body, &jws); err != nil {
		s.w.t.Error(err)
	}
	payload, _ := base64.RawURLEncoding.DecodeString(jws.Payload)
	if err := json.Unmarshal(payload, &order); err != nil {
		s.w.t.Error(err)
	}
	var names []string
	for _, identifier := range order.Identifiers {
		names = append(names, identifier.Value)
	}
	slices.Sort(names)
	set := strings.Join(names, " ")
	s.times = append(s.times, now)
	s.sets[set] = append(s.sets[set], now)
}

// most gives the largest number of times within a span; times ascend.
func most(times []time.Time, span time.Duration) int {
	largest, first := 0, 0
	for i, t := range times {
		for t.Sub(times[first]) >= span {
			first++
		}
		largest = max(largest, i-first+1)
	}
	return largest
}
