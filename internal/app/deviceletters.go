package app

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
)

// tellOfDevice tells the owner of a device what happened to it.
func (a *App) tellOfDevice(ctx context.Context, tx *sqldb.Tx, n devices.Notice) error {
	letter := deviceLetter(n, a.config.PublicURL())
	return a.areas.identity.Tell(ctx, tx, n.UserID, string(n.Kind), letter)
}

func deviceLetter(n devices.Notice, url string) mail.Letter {
	from := ""
	if n.Address != "" {
		from = fmt.Sprintf(" The request came from the network address %s.", n.Address)
	}
	return mail.Letter{
		Subject: "A device goes on from another network",
		Paragraphs: []string{
			fmt.Sprintf("Device %d, called %q, of your account at %s asked for its tokens again: an answer was lost, or a copy of its old token is in use.%s",
				n.Device.ID, n.Device.Name, url, from),
			"If the device is not there, log it in again with its agent. That ends all tokens that it had before.",
		},
	}
}
