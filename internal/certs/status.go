package certs

import "time"

// Status is the status of a certificate record (decisions.md section 4).
type Status string

// The statuses.
const (
	StatusNew     Status = "NEW"     // never issued
	StatusActive  Status = "ACTIVE"  // issued, and not_after has not passed
	StatusExpired Status = "EXPIRED" // not_after has passed
	StatusRevoked Status = "REVOKED" // the present leaf was revoked
)

// StatusAt gives the status at a time. notAfter and revokedAt are Unix
// milliseconds of the present leaf; 0 means not issued and not revoked. A revoked
// leaf stays REVOKED after its end.
func StatusAt(now time.Time, notAfter, revokedAt int64) Status {
	switch {
	case notAfter == 0:
		return StatusNew
	case revokedAt != 0:
		return StatusRevoked
	case now.UnixMilli() > notAfter:
		return StatusExpired
	}
	return StatusActive
}
