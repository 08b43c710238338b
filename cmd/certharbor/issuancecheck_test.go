package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// finish waits for the end of an attempt and judges it.
func (i *issuer) finish(a *attempt) {
	i.t.Helper()
	t := i.t
	eventually(t, a.name+" is issued", func() bool {
		i.me.must("GET", fmt.Sprintf("%s/%d", a.path(), a.issue.ID), nil, http.StatusOK, &a.issue)
		return a.issue.over()
	})
	if a.issue.Status != "SUCCESS" || a.issue.ErrorMessage != "" {
		t.Errorf("%s: %+v", a.name, a.issue)
		return
	}
	orders, finalized := i.ca.of(a.name)
	if a.before.OrderURL != "" && (a.issue.OrderURL != a.before.OrderURL || len(orders) != a.orders) {
		t.Errorf("%s: order %s was recorded as the %d., now it is %s of %v", a.name, a.before.OrderURL, a.orders, a.issue.OrderURL, orders)
	}
	if len(orders) > 1+a.unrecorded {
		t.Errorf("%s: %d orders, %d kills before one was recorded", a.name, len(orders), a.unrecorded)
	}
	if !slices.Equal(finalized, []string{a.issue.OrderURL}) {
		t.Errorf("%s: certificates came of %v, recorded is %s", a.name, finalized, a.issue.OrderURL)
	}
	i.checkHistory(a)
}

// steps are those that every attempt logs, in their order.
var steps = []string{"account", "order", "authorize", "validate", "finalize", "download"}

// checkHistory sees that the attempt is told whole, once, in order.
func (i *issuer) checkHistory(a *attempt) {
	i.t.Helper()
	var history []issueRow
	i.me.must("GET", a.path()+"/history", nil, http.StatusOK, &history)
	if len(history) != 1 || history[0].ID != a.issue.ID || history[0].Number != 1 || history[0].Trigger != "manual" {
		i.t.Errorf("%s: history %+v", a.name, history)
	}
	at, logged := a.issue.StartedAt, map[string]bool{}
	for n, line := range a.issue.Log {
		if line.At < at || n > 0 && slices.Index(steps, line.Step) < slices.Index(steps, a.issue.Log[n-1].Step) {
			i.t.Errorf("%s: log goes back: %+v", a.name, a.issue.Log)
		}
		at, logged[line.Step] = line.At, true
		if strings.Contains(line.Message, "interruption") {
			i.interrupted[line.Step]++
		}
	}
	for _, step := range steps {
		if !logged[step] {
			i.t.Errorf("%s: step %s is not in the log: %+v", a.name, step, a.issue.Log)
		}
	}
	if a.issue.CompletedAt < a.issue.StartedAt {
		i.t.Errorf("%s: from %d to %d", a.name, a.issue.StartedAt, a.issue.CompletedAt)
	}
	var cert struct {
		Status       string
		SerialNumber string `json:"serial_number"`
		LastIssue    struct {
			ID     int64
			Status string
		} `json:"last_issue"`
	}
	i.me.must("GET", fmt.Sprintf("/apiv1/me/certificates/%d", a.cert), nil, http.StatusOK, &cert)
	if cert.Status != "ACTIVE" || cert.SerialNumber == "" || cert.LastIssue.ID != a.issue.ID || cert.LastIssue.Status != "SUCCESS" {
		i.t.Errorf("%s: certificate %+v", a.name, cert)
	}
}

// settled sees that every success was told under one delivery id, and that
// nothing else was.
func (i *issuer) settled(all []*attempt) {
	i.t.Helper()
	var deliveries []struct {
		ID      int64
		IssueID int64 `json:"issue_history_id"`
		CertID  int64 `json:"cert_id"`
		Status  string
	}
	eventually(i.t, "all deliveries are over", func() bool {
		i.me.must("GET", fmt.Sprintf("/apiv1/me/service_webhooks/%d/deliveries?limit=1000", i.hookID), nil, http.StatusOK, &deliveries)
		for _, d := range deliveries {
			if d.Status != "SUCCESS" {
				return false
			}
		}
		return true
	})
	if len(deliveries) != len(all) {
		i.t.Errorf("%d deliveries of %d successes", len(deliveries), len(all))
	}
	certs := map[int64]int64{}
	for _, d := range deliveries {
		certs[d.IssueID] = d.CertID
	}
	for _, a := range all {
		if certs[a.issue.ID] != a.cert || i.hook.ids(a.issue.ID) != 1 {
			i.t.Errorf("%s: delivery of certificate %d, %d delivery ids", a.name, certs[a.issue.ID], i.hook.ids(a.issue.ID))
		}
	}
}
