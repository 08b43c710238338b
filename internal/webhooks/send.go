package webhooks

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	userAgent = "svc-service-webhook/1"
	// attemptTimeout bounds one attempt, reading the answer included.
	attemptTimeout = 10 * time.Second
	// readLimit is how much of an answer is read so that its connection can be
	// used again. Nothing of it is kept.
	readLimit = 64 << 10
)

// attempt makes one POST. ok is false when it was interrupted from our side,
// which says nothing about the receiver.
func (r *run) attempt(ctx context.Context, d delivery) (res result, ok bool) {
	sentAt := strconv.FormatInt(r.s.now().UnixMilli(), 10)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.hook.url, strings.NewReader(d.Body))
	if err != nil {
		return unanswered(d, err, r.s.now()), true
	}
	// Written as api.md spells them; Set would change their case.
	req.Header = http.Header{
		"Content-Type":          {"application/json"},
		"User-Agent":            {userAgent},
		"X-BB-Event":            {d.Event},
		"X-BB-Webhook-Id":       {strconv.FormatInt(r.hook.id, 10)},
		"X-BB-Delivery-Id":      {strconv.FormatInt(d.ID, 10)},
		"X-BB-Cert-Id":          {strconv.FormatInt(d.CertID, 10)},
		"X-BB-Issue-History-Id": {strconv.FormatInt(d.IssueHistoryID, 10)},
		"X-BB-Timestamp":        {sentAt},
		"X-BB-Signature":        {Sign(r.secret, sentAt, []byte(d.Body))},
	}
	resp, err := r.s.client.Do(req)
	if err != nil {
		return unanswered(d, err, r.s.now()), ctx.Err() == nil
	}
	// The status has decided; an answer that stays away or never ends only
	// costs its connection.
	_, _ = io.CopyN(io.Discard, resp.Body, readLimit)
	_ = resp.Body.Close()
	return answered(d, resp, r.s.now()), true
}
