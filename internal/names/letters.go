package names

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
)

func (s *Service) tell(ctx context.Context, tx *sqldb.Tx, userID int64, kind string, letter mail.Letter) error {
	if s.Tell == nil || userID == 0 {
		return nil
	}
	return s.Tell(ctx, tx, userID, kind, letter)
}

func lostLetter(name, proof string) mail.Letter {
	how := "Another user of this server proved to be its owner by a DNS record."
	if proof == proofAdmin {
		how = "An administrator gave it to another user."
	}
	return mail.Letter{Subject: name + " is no longer yours", Paragraphs: []string{
		fmt.Sprintf("%s and the names below it are no longer yours at this server. %s", name, how),
		"Your certificates for it stay valid until they expire, but renew no more. Nothing was revoked. " +
			"If the domain is yours, set the record that the list of your names shows and verify it.",
	}}
}

func absentLetter(name string, stop time.Time) mail.Letter {
	return mail.Letter{Subject: "The record of " + name + " is gone", Paragraphs: []string{
		fmt.Sprintf("The TXT record %s%s, which shows that %s is yours, is missing at all of its name servers.", recordLabel, name, name),
		fmt.Sprintf("Set it again before %s. Otherwise your certificates there renew no more, "+
			"and before that only if another user proves the name.", stop.UTC().Format("2 January 2006")),
	}}
}

func lapsedLetter(name string) mail.Letter {
	return mail.Letter{Subject: "Certificates for " + name + " renew no more", Paragraphs: []string{
		fmt.Sprintf("The TXT record %s%s has been missing for 30 days. Your certificates there renew no more.", recordLabel, name),
		"Set it again and verify the name in the list of your names: renewals go on at once.",
	}}
}

func givenLetter(name string) mail.Letter {
	return mail.Letter{Subject: name + " is yours", Paragraphs: []string{
		fmt.Sprintf("An administrator gave you %s and the names below it: you may order certificates there, and no other user may.", name),
	}}
}

func releasedLetter(name string) mail.Letter {
	return mail.Letter{Subject: name + " is no longer yours", Paragraphs: []string{
		fmt.Sprintf("An administrator released %s: it is nobody's now. Your certificates for it stay valid; the next one that is issued may claim the name again.", name),
	}}
}

func givenBackLetter(name string) mail.Letter {
	return mail.Letter{Subject: name + " is no longer yours", Paragraphs: []string{
		name + " was given back in your account: any user of this server who orders a certificate there gets it now.",
		"Your certificates for it stay valid; the next one that is issued may claim the name again. " +
			"If it was not you, end all of your sessions, change your password, and tell the administrators of this server.",
	}}
}
