package mail

import (
	"fmt"
	"net/mail"

	gomail "github.com/wneessen/go-mail"
)

// compose makes the message of RFC 5322.
func compose(e *Envelope, from *mail.Address) (*gomail.Msg, error) {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := m.FromFormat(from.Name, from.Address); err != nil {
		return nil, fmt.Errorf("the sender's address: %w", err)
	}
	if err := m.To(e.To); err != nil {
		return nil, &PermanentError{fmt.Errorf("the recipient's address: %w", err)}
	}
	m.Subject(e.Subject)
	m.SetDateWithValue(e.CreatedAt)
	m.SetMessageIDWithValue(fmt.Sprintf("%d.%d@%s", e.CreatedAt.UnixMilli(), e.ID, domain(from.Address)))
	// Nobody is to answer with an out-of-office note (RFC 3834).
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(gomail.TypeTextPlain, e.Text)
	m.AddAlternativeString(gomail.TypeTextHTML, e.HTML)
	return m, nil
}
