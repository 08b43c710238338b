package certs

import (
	"math/rand/v2"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
)

const day = 24 * time.Hour

var begin = time.Date(2026, 3, 4, 10, 30, 0, 0, time.UTC) // a Wednesday

func lasting(id int64, lifetime time.Duration) Renewal {
	return Renewal{CertID: id, NotBefore: begin, NotAfter: begin.Add(lifetime)}
}

func TestRenewalLeavesAThird(t *testing.T) {
	t.Parallel()
	for _, lifetime := range []time.Duration{time.Minute, time.Hour, 6 * day, 47 * day, 90 * day, 398 * day, 3650 * day} {
		for id := range int64(200) {
			left := lasting(id, lifetime).NotAfter.Sub(lasting(id, lifetime).At())
			if left < lifetime/3 || left > lifetime/3+min(lifetime/60, maxSpread) {
				t.Fatalf("lifetime %v, certificate %d: %v left", lifetime, id, left)
			}
		}
	}
}

// TestRenewalsSpread: a thousand certificates that were issued in one instant do
// not renew in one minute, with or without renewal information and a window.
func TestRenewalsSpread(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Renewal){
		"plain":     func(*Renewal) {},
		"days":      func(r *Renewal) { r.BeforeDays = 20 },
		"suggested": func(r *Renewal) { r.Suggested = &SuggestedTime{begin.Add(40 * day), begin.Add(42 * day)} },
		"window":    func(r *Renewal) { r.Window = &RenewalWindow{Weekdays: []string{"SUN"}, StartHour: 2, EndHour: 5} },
	} {
		minutes := map[int64]int{}
		for id := range int64(1000) {
			renewal := lasting(id, 90*day)
			change(&renewal)
			minutes[renewal.At().Unix()/60]++
		}
		most := 0
		for _, count := range minutes {
			most = max(most, count)
		}
		if most > 25 {
			t.Errorf("%s: %d renewals in one minute", name, most)
		}
	}
}

func TestRenewBeforeDays(t *testing.T) {
	t.Parallel()
	renewal := lasting(1, 90*day)
	renewal.BeforeDays = 10
	if left := renewal.NotAfter.Sub(renewal.At()); left < 10*day || left > 10*day+maxSpread {
		t.Errorf("10 days before: %v left", left)
	}
	// More days than the lifetime has must not mean a renewal without end.
	for _, days := range []int{60, 89, 90, 91, 3650, 1 << 30} {
		renewal.BeforeDays = days
		if used := renewal.At().Sub(renewal.NotBefore); used < 30*day-maxSpread {
			t.Errorf("%d days before the end: renews after %v", days, used)
		}
	}
}

func TestSuggestedTime(t *testing.T) {
	t.Parallel()
	plain := lasting(1, 90*day).At()
	for name, test := range map[string]struct {
		start, end time.Duration
		counts     bool
	}{
		"earlier":  {50 * day, 52 * day, true},
		"past":     {-10 * day, -9 * day, true}, // the CA is about to revoke: now
		"later":    {70 * day, 72 * day, false},
		"inverted": {52 * day, 50 * day, false},
		"empty":    {50 * day, 50 * day, false},
	} {
		renewal := lasting(1, 90*day)
		renewal.Suggested = &SuggestedTime{begin.Add(test.start), begin.Add(test.end)}
		at := renewal.At()
		inside := !at.Before(renewal.Suggested.Start) && at.Before(renewal.Suggested.End)
		if test.counts && !inside || !test.counts && !at.Equal(plain) {
			t.Errorf("%s: %v", name, at)
		}
	}
}

func TestWindowNext(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		parsed, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for name, test := range map[string]struct {
		window    RenewalWindow
		due, want string
	}{
		"open now":            {RenewalWindow{nil, 9, 12}, "2026-03-04 10:30", "2026-03-04 10:30"},
		"opens now":           {RenewalWindow{nil, 9, 12}, "2026-03-04 09:00", "2026-03-04 09:00"},
		"closed just now":     {RenewalWindow{nil, 9, 12}, "2026-03-04 12:00", "2026-03-05 10:30"},
		"later today":         {RenewalWindow{nil, 9, 12}, "2026-03-04 08:59", "2026-03-04 10:30"},
		"tomorrow":            {RenewalWindow{nil, 1, 3}, "2026-03-04 10:30", "2026-03-05 02:00"},
		"on Sunday":           {RenewalWindow{[]string{"SUN"}, 0, 24}, "2026-03-04 10:30", "2026-03-08 12:00"},
		"whole days":          {RenewalWindow{[]string{"WED"}, 0, 0}, "2026-03-04 23:59", "2026-03-04 23:59"},
		"in a week":           {RenewalWindow{[]string{"WED"}, 9, 10}, "2026-03-04 10:30", "2026-03-11 09:30"},
		"over midnight":       {RenewalWindow{[]string{"TUE"}, 22, 4}, "2026-03-04 03:59", "2026-03-04 03:59"},
		"over midnight, past": {RenewalWindow{[]string{"TUE"}, 22, 4}, "2026-03-04 04:00", "2026-03-11 01:00"},
		"equal hours":         {RenewalWindow{nil, 5, 5}, "2026-03-04 04:00", "2026-03-04 04:00"},
	} {
		if err := test.window.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, found := test.window.next(at(test.due), 0.5)
		if !found || !got.Equal(at(test.want)) {
			t.Errorf("%s: %v, %v; want %s", name, got, found, test.want)
		}
	}
}

func TestWindowValidate(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]RenewalWindow{
		"renewal_window.weekdays[1]": {[]string{"MON", "Monday"}, 1, 2},
		"renewal_window.start_hour":  {nil, 24, 3},
		"renewal_window.end_hour":    {nil, 1, 25},
	} {
		err := window.Validate()
		if f := fault.As(err); f == nil || len(f.What) < len(name) || f.What[:len(name)] != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	lower := RenewalWindow{Weekdays: []string{"mon"}, EndHour: 1}
	if err := lower.Validate(); err != nil || lower.Weekdays[0] != "MON" {
		t.Errorf("lower case: %v, %v", lower, err)
	}
}

// TestRenewalProperties: whatever the input, the time is always the same, never
// before the certificate begins unless the CA says so, and never so late that
// less than half of what was to be left remains.
func TestRenewalProperties(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		lifetime := time.Duration(1+random.Int64N(int64(400*24*3600))) * time.Second
		renewal := lasting(random.Int64(), lifetime)
		if random.IntN(2) == 0 {
			renewal.BeforeDays = 1 + random.IntN(400)
		}
		if random.IntN(2) == 0 {
			start := begin.Add(time.Duration(random.Int64N(int64(2*lifetime))) - lifetime/2)
			renewal.Suggested = &SuggestedTime{start, start.Add(time.Duration(random.Int64N(int64(lifetime))) - lifetime/4)}
		}
		open := renewal
		if random.IntN(2) == 0 {
			window := RenewalWindow{StartHour: random.IntN(24), EndHour: random.IntN(25)}
			for i, name := range weekdayNames {
				if random.IntN(3) == 0 && i > 0 {
					window.Weekdays = append(window.Weekdays, name)
				}
			}
			renewal.Window = &window
		}
		at, due := renewal.At(), open.At()
		if again := renewal.At(); !again.Equal(at) {
			t.Fatalf("%+v: %v, then %v", renewal, at, again)
		}
		if at.Before(due) || !due.Before(renewal.NotAfter) || renewal.NotAfter.Sub(at) < renewal.NotAfter.Sub(due)/2 {
			t.Fatalf("%+v: due %v, at %v", renewal, due, at)
		}
		if renewal.Suggested == nil && due.Before(renewal.NotBefore.Add(lifetime/4)) {
			t.Fatalf("%+v: due after %v", renewal, due.Sub(renewal.NotBefore))
		}
	}
}

func TestRenewalOfNothing(t *testing.T) {
	t.Parallel()
	if at := lasting(1, 0).At(); !at.Equal(begin) {
		t.Errorf("no lifetime: %v", at)
	}
}
