package identity

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Tell sends the user a letter of which kind is the word in the log, in tx. A
// user without an address is told nothing.
func (s *Service) Tell(ctx context.Context, tx *sqldb.Tx, userID int64, kind string, letter mail.Letter) error {
	user, err := New(tx).userByID(ctx, userID)
	if err != nil {
		return fmt.Errorf("read a user: %w", err)
	}
	if user.Email == "" {
		return nil
	}
	return s.post(ctx, tx, userID, kind, user.Email, letter)
}

// TellWayIn tells the user that a way to sign in was added or removed. what is
// the change as a sentence without its end, for example "A passkey was added".
func (s *Service) TellWayIn(ctx context.Context, tx *sqldb.Tx, userID int64, what, name string) error {
	named := ""
	if name != "" {
		named = fmt.Sprintf(" It is called %q.", name)
	}
	return s.Tell(ctx, tx, userID, "way-in", mail.Letter{
		Subject: what,
		Paragraphs: []string{
			fmt.Sprintf("%s: a way to sign in to your account at %s.%s", what, s.baseURL, named),
			requestedFrom(web.ClientIP(ctx)) + "If it was not you, choose a new password at once and look at the list of your sessions, passkeys and keys.",
		},
	})
}

func (s *Service) activationLetter(code, ip string) mail.Letter {
	return mail.Letter{
		Subject: "Confirm your e-mail address",
		Paragraphs: []string{
			fmt.Sprintf("Somebody, hopefully you, asked for an account at %s with this address. The code that confirms it, good for 15 minutes:", s.baseURL),
			requestedFrom(ip) + "If it was not you, ignore this message: without the code there will be no account. Give the code to nobody.",
		},
		Code: code,
	}
}

func (s *Service) takenLetter(ip string) mail.Letter {
	return mail.Letter{
		Subject: "You have an account already",
		Paragraphs: []string{
			fmt.Sprintf("Somebody, hopefully you, asked for an account at %s with this address, which has one already. Nothing has been changed.", s.baseURL),
			"If you have forgotten the password, ask for a new one there instead.",
			requestedFrom(ip) + "If it was not you, ignore this message.",
		},
	}
}

func (s *Service) resetLetter(code, ip string) mail.Letter {
	return mail.Letter{
		Subject: "Choose a new password",
		Paragraphs: []string{
			fmt.Sprintf("Somebody, hopefully you, has forgotten the password of your account at %s. The code for choosing a new one, good for 15 minutes:", s.baseURL),
			requestedFrom(ip) + "If it was not you, ignore this message: your password stays as it is. Give the code to nobody.",
		},
		Code: code,
	}
}

func (s *Service) passwordLetter(ip string) mail.Letter {
	return mail.Letter{
		Subject: "Your password was changed",
		Paragraphs: []string{
			fmt.Sprintf("The password of your account at %s was changed, and the other sessions were signed out.", s.baseURL),
			requestedFrom(ip) + "If it was not you, choose a new password at once and look at the list of your sessions and keys.",
		},
	}
}

func requestedFrom(ip string) string {
	if ip == "" {
		return ""
	}
	return "The request came from the network address " + ip + ". "
}
