package certs

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

const (
	// maxSpread bounds by how much renewals are moved apart.
	maxSpread = 36 * time.Hour
	// maxBeforeDays keeps a time span within what an int64 of nanoseconds holds.
	maxBeforeDays = 36_500
)

// Renewal is what the time of a renewal depends on.
type Renewal struct {
	CertID     int64
	NotBefore  time.Time
	NotAfter   time.Time
	BeforeDays int            // renew_before_days; 0 means a third of the lifetime
	Suggested  *SuggestedTime // the CA's renewal information (RFC 9773), may be nil
	Window     *RenewalWindow // allowed weekdays and hours, may be nil
}

// SuggestedTime is the suggestedWindow of a CA's renewal information.
type SuggestedTime struct{ Start, End time.Time }

// At gives when to renew; it may be in the past, which means now.
//
// The due time leaves a third of the lifetime, or BeforeDays, and is moved
// earlier by up to a sixtieth of the lifetime and at most 36 hours, always the
// same for one certificate, so that certificates of one day do not renew in one
// minute. BeforeDays counts only as far as a third of the lifetime has passed:
// otherwise a short-lived certificate would renew without end. The CA's
// suggestion counts where it is earlier. A window moves the time to its next
// opening, unless less than half of what is left would then remain: a window
// never lets a certificate expire.
func (r Renewal) At() time.Time {
	lifetime := r.NotAfter.Sub(r.NotBefore)
	if lifetime <= 0 {
		return r.NotAfter
	}
	due := r.NotAfter.Add(-lifetime / 3)
	if r.BeforeDays > 0 {
		due = r.NotAfter.Add(-time.Duration(min(r.BeforeDays, maxBeforeDays)) * 24 * time.Hour)
	}
	spread := time.Duration(float64(min(lifetime/60, maxSpread)) * r.fraction("spread"))
	due = later(due.Add(-spread), r.NotBefore.Add(lifetime/3))
	if s := r.Suggested; s != nil && s.End.After(s.Start) {
		picked := s.Start.Add(time.Duration(float64(s.End.Sub(s.Start)) * r.fraction("suggested")))
		due = earlier(due, picked)
	}
	if r.Window == nil {
		return due
	}
	opening, found := r.Window.next(due, r.fraction("window"))
	if left := r.NotAfter.Sub(due); !found || r.NotAfter.Sub(opening) < left/2 {
		return due
	}
	return opening
}

// fraction gives a number in [0, 1) that is always the same for one certificate
// and purpose.
func (r Renewal) fraction(purpose string) float64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(purpose), uint64(r.CertID)))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
