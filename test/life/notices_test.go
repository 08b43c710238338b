package life_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/mail/mailtest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// TestOwnerOfADisabledWebhookIsTold: a receiver that is gone for good disables
// its webhook, and the owner gets a letter that does not give the path away.
func TestOwnerOfADisabledWebhookIsTold(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		server := mailtest.Start(t, mailtest.Options{})
		gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
		t.Cleanup(gone.Close)
		c := apptest.Settings(t, db)
		c.SMTPURL = "smtp://" + server.Address + "?from=noreply%40example.org"
		p := apptest.Start(t, c, app.Options{}, nil)
		me := p.Person("owner@example.org")
		var hook struct{ ID int64 }
		me.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": gone.URL + "/secret-path", "secret": apptest.HookSecret}, 201).Data(t, &hook)
		me.Do("POST", fmt.Sprintf("/apiv1/me/service_webhooks/%d/test", hook.ID), nil, 201)
		told := apptest.ReadLetter(t, server.Next(t).Data)
		if told.To != "<owner@example.org>" || told.Subject != "A webhook was disabled" || !strings.Contains(told.Text, "410") || strings.Contains(told.Text, "secret-path") {
			t.Errorf("%+v", told)
		}
	})
}
