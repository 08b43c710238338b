package identity

import (
	"fmt"

	"certharbor.dev/certharbor/internal/mail"
)

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
