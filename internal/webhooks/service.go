package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Inserter enqueues jobs; jobs.Engine is one.
type Inserter interface {
	Insert(ctx context.Context, tx *sqldb.Tx, args jobs.Args, options jobs.Options) error
}

// Disabled says that the service, not its owner, disabled a webhook.
type Disabled struct {
	UserID, WebhookID int64
	URL, Reason       string
}

// StepUp tells whether a person has proved recently enough who they are.
type StepUp interface {
	// RequireStepUp refuses (5034) the caller of ctx who must prove it afresh;
	// API keys pass.
	RequireStepUp(ctx context.Context, q sqldb.Querier) error
}

// Deps are what a Service needs.
type Deps struct {
	DB    *sqldb.DB
	Audit *audit.Log
	Log   *slog.Logger
	Now   func() time.Time
	Keys  *seal.Keyring
	Jobs  Inserter
	// Outbound sets up the client: AllowCIDRs is webhooks.allow_cidrs. Timeout
	// is of one attempt; 0 means the 10 s of decisions.md section 5.
	Outbound outbound.Options
	// Tell tells the owner of a webhook that it was disabled, in the transaction
	// that does it. Nil: it stands in the record and in the audit log alone.
	Tell   func(ctx context.Context, tx *sqldb.Tx, d Disabled) error
	StepUp StepUp // nil: not asked
	// Quota refuses a user who has too many webhooks. Nil: nobody has.
	Quota func(ctx context.Context, tx *sqldb.Tx, userID int64) error
	// Limiter bounds how often a user tests and redelivers. Nil: nothing does.
	Limiter *ratelimit.Limiter
}

// Service owns the webhooks and their deliveries.
type Service struct {
	db      *sqldb.DB
	audit   *audit.Log
	log     *slog.Logger
	now     func() time.Time
	keys    *seal.Keyring
	jobs    Inserter
	tell    func(context.Context, *sqldb.Tx, Disabled) error
	stepUp  StepUp
	quota   func(context.Context, *sqldb.Tx, int64) error
	limiter *ratelimit.Limiter
	guard   *outbound.Guard
	client  *http.Client
	random  func() float64 // in [0, 1), for the jitter
	node    string         // names this process as the holder of leases

	turns   *jobs.Turns
	mu      sync.Mutex
	running map[int64]struct{} // webhooks that this process drains now
}

// NewService returns a Service. Nothing is delivered before Register's jobs run.
func NewService(d Deps) *Service {
	if d.Outbound.Timeout == 0 {
		d.Outbound.Timeout = attemptTimeout
	}
	s := &Service{
		db: d.DB, audit: d.Audit, log: d.Log, now: d.Now, keys: d.Keys, jobs: d.Jobs, tell: d.Tell, quota: d.Quota, limiter: d.Limiter, stepUp: d.StepUp,
		guard: outbound.NewGuard(d.Outbound.AllowCIDRs, d.Outbound.AllowPorts...), client: outbound.New(d.Outbound),
		random: rand.Float64, node: seal.NewToken("node_", 12), running: map[int64]struct{}{}, turns: jobs.NewTurns(places),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// fresh refuses a person without a fresh proof: both Create and Update
// carry the secret that makes events believable.
func (s *Service) fresh(ctx context.Context) error {
	if s.stepUp == nil || access.From(ctx) == nil {
		return nil
	}
	return s.stepUp.RequireStepUp(ctx, s.db.Reader())
}

// UseJobs sets the engine, which can only be made after Register.
func (s *Service) UseJobs(j Inserter) { s.jobs = j }

// maxTries is how many tests and redeliveries a user may ask for in an hour.
const maxTries = 120

// try counts a test or redelivery.
func (s *Service) try(ctx context.Context, tx *sqldb.Tx, userID int64) error {
	if s.limiter == nil {
		return nil
	}
	return s.limiter.CountIn(ctx, tx, ratelimit.Hit{
		Rule: ratelimit.WebhookTriesOfUser, Key: strconv.FormatInt(userID, 10), Max: maxTries, Window: time.Hour,
	})
}

// Count tells how many webhooks the user has.
func (s *Service) Count(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	n, err := New(q).countWebhooks(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("count webhooks: %w", err)
	}
	return n, nil
}

// Create makes a webhook. warnings tell how the input was understood. A person
// needs a fresh proof (5034).
func (s *Service) Create(ctx context.Context, userID int64, in Input) (w Webhook, warnings []string, err error) {
	if err := s.fresh(ctx); err != nil {
		return Webhook{}, nil, err
	}
	c, err := in.check(s.guard)
	if err != nil {
		return Webhook{}, nil, err
	}
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		q := New(tx)
		if s.quota != nil {
			if err := s.quota(ctx, tx, userID); err != nil {
				return err
			}
		}
		id, err := q.insertWebhook(ctx, insertWebhookParams{
			UserID: userID, Url: c.url, EventKey: EventIssued, Secret: []byte{}, ScopeType: c.scope.Type,
			ScopeCertID: c.scope.CertID, ScopeDomain: c.scope.Domain, Enabled: c.enabled, CreatedAt: s.now().UnixMilli(),
		})
		if err != nil {
			return fmt.Errorf("insert webhook: %w", err)
		}
		sealed, err := s.keys.Seal(secretPlace(id), c.secret)
		if err != nil {
			return err
		}
		if err := q.setSecret(ctx, setSecretParams{ID: id, Secret: sealed}); err != nil {
			return fmt.Errorf("store webhook secret: %w", err)
		}
		if w, err = get(ctx, tx, userID, id); err != nil {
			return err
		}
		return s.record(ctx, tx, "webhook.create", w)
	})
	return w, c.warnings, err
}

// Update replaces everything that the user says about the webhook. One that is
// enabled by it starts with a clean record, and goes on with what is pending. A
// person needs a fresh proof (5034).
func (s *Service) Update(ctx context.Context, userID, id int64, in Input) (w Webhook, warnings []string, err error) {
	if err := s.fresh(ctx); err != nil {
		return Webhook{}, nil, err
	}
	c, err := in.check(s.guard)
	if err != nil {
		return Webhook{}, nil, err
	}
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		hook, err := s.own(ctx, tx, userID, id)
		if err != nil {
			return err
		}
		sealed, err := s.keys.Seal(secretPlace(id), c.secret)
		if err != nil {
			return err
		}
		err = New(tx).updateWebhook(ctx, updateWebhookParams{
			ID: id, Url: c.url, EventKey: EventIssued, Secret: sealed, ScopeType: c.scope.Type,
			ScopeCertID: c.scope.CertID, ScopeDomain: c.scope.Domain, Enabled: c.enabled, UpdatedAt: s.now().UnixMilli(),
		})
		if err != nil {
			return fmt.Errorf("update webhook %d: %w", id, err)
		}
		if c.enabled {
			if err := s.planNext(ctx, tx, hook); err != nil {
				return err
			}
		}
		if w, err = get(ctx, tx, userID, id); err != nil {
			return err
		}
		return s.record(ctx, tx, "webhook.update", w)
	})
	return w, c.warnings, err
}

// Delete removes the webhook with its deliveries.
func (s *Service) Delete(ctx context.Context, userID, id int64) error {
	return s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		w, err := get(ctx, tx, userID, id)
		if err != nil {
			return err
		}
		if _, err := New(tx).deleteWebhook(ctx, deleteWebhookParams{ID: id, UserID: userID}); err != nil {
			return fmt.Errorf("delete webhook %d: %w", id, err)
		}
		return s.record(ctx, tx, "webhook.delete", w)
	})
}

// Get returns the user's webhook, or fault.NotFound("webhook").
func (s *Service) Get(ctx context.Context, userID, id int64) (Webhook, error) {
	return get(ctx, s.db.Reader(), userID, id)
}

func get(ctx context.Context, q sqldb.Querier, userID, id int64) (Webhook, error) {
	row, err := New(q).getWebhook(ctx, getWebhookParams{ID: id, UserID: userID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Webhook{}, fault.NotFound("webhook")
	}
	if err != nil {
		return Webhook{}, fmt.Errorf("read webhook %d: %w", id, err)
	}
	return toWebhook(row), nil
}

// List returns a page of the user's webhooks, newest first, and their number.
func (s *Service) List(ctx context.Context, userID int64, page web.Page) ([]Webhook, int64, error) {
	q := New(s.db.Reader())
	total, err := q.countWebhooks(ctx, userID)
	if err != nil {
		return nil, 0, fmt.Errorf("count webhooks: %w", err)
	}
	rows, err := q.listWebhooks(ctx, listWebhooksParams{UserID: userID, PageLimit: page.Limit, PageOffset: page.Offset})
	if err != nil {
		return nil, 0, fmt.Errorf("list webhooks: %w", err)
	}
	var list []Webhook
	for _, row := range rows {
		list = append(list, toWebhook(getWebhookRow(row)))
	}
	return list, total, nil
}

// listOf returns those of the webhooks that exist and are the user's, newest
// first: what a key for named objects sees.
func (s *Service) listOf(ctx context.Context, userID int64, ids []int64) ([]Webhook, error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var list []Webhook
	for _, id := range slices.Backward(slices.Compact(ids)) {
		w, err := s.Get(ctx, userID, id)
		if fault.Is(err, fault.CodeNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

// own locks the user's webhook.
func (s *Service) own(ctx context.Context, tx *sqldb.Tx, userID, id int64) (locked, error) {
	hook, err := lock(ctx, tx, id)
	if sqldb.Is(err, sqldb.ErrNotFound) || err == nil && hook.userID != userID {
		return hook, fault.NotFound("webhook")
	}
	return hook, err
}

func (s *Service) record(ctx context.Context, tx *sqldb.Tx, action string, w Webhook) error {
	host := ""
	if u, err := url.Parse(w.URL); err == nil {
		host = u.Host // receivers' addresses may carry tokens in path and query
	}
	return s.audit.Record(ctx, tx, audit.Entry{
		UserID: w.UserID, Action: action, Object: fmt.Sprintf("webhook %d", w.ID),
		Detail: map[string]any{"host": host, "scope": w.Scope, "enabled": w.Enabled},
	})
}
