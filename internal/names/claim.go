package names

import "database/sql"

// The states of a claim.
const (
	statePending = "PENDING" // the record is awaited, or the name was lost
	stateHeld    = "HELD"
	stateClash   = "CLASH" // another user holds the name; certificates from before claims were kept go on renewing
)

// How a claim was made.
const (
	proofIssue   = "issue"   // the first certificate for the domain
	proofTXT     = "txt"     // the record
	proofAdmin   = "admin"   // an administrator gave it
	proofUpgrade = "upgrade" // a certificate from before claims were kept
)

const (
	// maxHeld claims of a user; beyond it a certificate claims nothing.
	maxHeld = 2000
	// maxPending names of a user wait for a record.
	maxPending = 100
	// manyClaims in one domain are looked through at once; where there are more,
	// the names on the path are asked for one by one.
	manyClaims = 200
	// maxGrants on one claim, and as many to one user in a domain.
	maxGrants = 100
)

func nullable(id int64) sql.NullInt64 { return sql.NullInt64{Int64: id, Valid: id != 0} }

func object(name string) string { return "name " + name }
