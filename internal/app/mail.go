package app

import (
	"context"
	"fmt"
	"path/filepath"

	"certharbor.dev/certharbor/internal/mail"
)

// mailTransport is the mail server of the settings or, without one, the folder
// outbox in the data folder.
func (a *App) mailTransport() (mail.Transport, error) {
	if a.config.SMTPURL == "" {
		return &mail.Folder{Path: filepath.Join(a.config.Data, "outbox"), Log: a.log}, nil
	}
	smtp, err := mail.ParseSMTP(a.config.SMTPURL)
	if err != nil {
		return nil, fmt.Errorf("smtp-url: %w", err)
	}
	return smtp, nil
}

// SetupToken is the secret of the link with which the first administrator is
// made, "" when there is a user.
func (a *App) SetupToken(ctx context.Context) (string, error) {
	return a.areas.identity.SetupToken(ctx)
}

// setupLink is the link of a new setup token, or "". The secret stands after
// the #: browsers send it to nobody, so that it is in no log.
func (a *App) setupLink(ctx context.Context) (string, error) {
	token, err := a.SetupToken(ctx)
	if token == "" || err != nil {
		return "", err
	}
	return a.config.PublicURL() + "/setup#token=" + token, nil
}
