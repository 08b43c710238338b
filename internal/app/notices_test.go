package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/mail/mailtest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// TestOwnerOfADisabledWebhookIsTold: a receiver that is gone for good disables
// its webhook, and the owner gets a letter that does not give the path away.
func TestOwnerOfADisabledWebhookIsTold(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		server := mailtest.Start(t, mailtest.Options{})
		gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
		t.Cleanup(gone.Close)
		c := settings(t, db)
		c.SMTPURL = "smtp://" + server.Address + "?from=noreply%40example.org"
		p := start(t, c, app.Options{}, nil)
		me := p.person("owner@example.org")
		var hook struct{ ID int64 }
		me.do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": gone.URL + "/secret-path", "secret": hookSecret}, 201).data(t, &hook)
		me.do("POST", fmt.Sprintf("/apiv1/me/service_webhooks/%d/test", hook.ID), nil, 201)
		told := readLetter(t, server.Next(t).Data)
		if told.to != "<owner@example.org>" || told.subject != "A webhook was disabled" || !strings.Contains(told.text, "410") || strings.Contains(told.text, "secret-path") {
			t.Errorf("%+v", told)
		}
	})
}
