package certs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/fault"
)

// RenewalWindow is the renewal_window of a certificate: the weekdays and hours,
// in UTC, in which it may renew by itself.
type RenewalWindow struct {
	Weekdays  []string `json:"weekdays,omitempty" maxItems:"7"` // MON to SUN; none means every day
	StartHour int      `json:"start_hour" required:"false"`     // 0 to 23
	EndHour   int      `json:"end_hour" required:"false"`       // 1 to 24, not included; up to start_hour means of the next day; 0 means 24
}

var weekdayNames = [7]string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

// Validate checks the members and puts weekday names in upper case. The error is
// a fault that names the member.
func (w *RenewalWindow) Validate() error {
	for i, day := range w.Weekdays {
		w.Weekdays[i] = strings.ToUpper(day)
		if !slices.Contains(weekdayNames[:], w.Weekdays[i]) {
			return fault.Invalid(fmt.Sprintf("renewal_window.weekdays[%d]", i), "must be one of MON, TUE, WED, THU, FRI, SAT, SUN")
		}
	}
	if w.StartHour < 0 || w.StartHour > 23 {
		return fault.Invalid("renewal_window.start_hour", "must be 0 to 23")
	}
	if w.EndHour < 0 || w.EndHour > 24 {
		return fault.Invalid("renewal_window.end_hour", "must be 0 to 24")
	}
	return nil
}

// next gives due itself when the window is open then, otherwise a moment within
// the next opening: fraction, in [0, 1), says how far into it, so that waiting
// certificates do not all start when the window opens.
func (w *RenewalWindow) next(due time.Time, fraction float64) (time.Time, bool) {
	due = due.UTC()
	length := w.length()
	// From yesterday, whose opening may reach over midnight, to this day next week.
	for day := -1; day <= 7; day++ {
		opens := time.Date(due.Year(), due.Month(), due.Day()+day, w.StartHour, 0, 0, 0, time.UTC)
		if !w.on(opens.Weekday()) {
			continue
		}
		if opens.After(due) {
			return opens.Add(time.Duration(float64(length) * fraction)), true
		}
		if due.Before(opens.Add(length)) {
			return due, true
		}
	}
	return time.Time{}, false
}

func (w *RenewalWindow) length() time.Duration {
	hours := w.EndHour - w.StartHour
	if hours <= 0 {
		hours += 24
	}
	return time.Duration(hours) * time.Hour
}

func (w *RenewalWindow) on(day time.Weekday) bool {
	return len(w.Weekdays) == 0 || slices.Contains(w.Weekdays, weekdayNames[day])
}
