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
	what := fmt.Sprintf("device %d of your account at %s, called %q", n.Device.ID, url, n.Device.Name)
	if n.Device.Platform != "" {
		what += fmt.Sprintf(" (%s)", n.Device.Platform)
	}
	from := ""
	if n.Address != "" {
		from = fmt.Sprintf(" The request came from the network address %s.", n.Address)
	}
	const mine = "If you know nothing of it, delete the device, end your sessions and API keys, and choose a new password."
	switch n.Kind {
	case devices.NoticeNew:
		return mail.Letter{Subject: "A device was registered", Paragraphs: []string{
			fmt.Sprintf("There is a new device: %s. It gets the certificates that you assign to it, with their private keys.%s", what, from), mine,
		}}
	case devices.NoticeKey:
		return mail.Letter{Subject: "A device has another key", Paragraphs: []string{
			fmt.Sprintf("Another key is in use from now on for %s. The private keys of its certificates are sealed to the new key.%s", what, from), mine,
		}}
	case devices.NoticeWaits:
		return mail.Letter{Subject: "A device came with another key", Paragraphs: []string{
			fmt.Sprintf("A program registered as %s, with another key than it has. It gets no private key before you confirm it.%s", what, from),
			fmt.Sprintf("If the device was set up anew, confirm its key at %s/device; refuse it there if you know nothing of it.", url),
		}}
	case devices.NoticeRefresh:
	}
	return mail.Letter{Subject: "A device goes on from another network", Paragraphs: []string{
		fmt.Sprintf("The tokens were asked for again of %s: an answer was lost, or a copy of an old token is in use.%s", what, from),
		"If the device is not there, log it in again with its agent. That ends all tokens that it had before.",
	}}
}
