package issuance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/sqldb"
)

// register makes the account at its CA, or finds it there.
func (a *attempt) register(ctx context.Context) error {
	leave, err := a.s.door(ctx, a.row.AcctID)
	if err != nil {
		return err
	}
	defer leave()
	if err := a.connect(ctx); err != nil { // another attempt may have registered it while we waited
		return err
	}
	message := "the account is registered"
	if a.account.AccountURL == "" {
		if err := a.s.Accounts.Register(ctx, &a.account); err != nil {
			return err
		}
		message = "the account was registered"
		if err := a.connect(ctx); err != nil {
			return err
		}
	}
	return a.save(ctx, message, func(r *issuanceRow) { r.Step = stepOrder }, nil)
}

// door lets one attempt of this process at a time register an account.
func (s *Service) door(ctx context.Context, acctID int64) (leave func(), err error) {
	s.mu.Lock()
	door, ok := s.doors[acctID]
	if !ok {
		door = make(chan struct{}, 1)
		s.doors[acctID] = door
	}
	s.mu.Unlock()
	select {
	case door <- struct{}{}:
		return func() { <-door }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the account's registration: %w", ctx.Err())
	}
}

// placeOrder places the order and records its URL at once.
func (a *attempt) placeOrder(ctx context.Context) error {
	if a.order.URL == "" { // otherwise it is placed, and could not be recorded yet
		if err := a.newOrder(ctx); err != nil {
			return a.orderRefused(ctx, err)
		}
	}
	names := decodeNames(a.row.Names)
	return a.save(ctx, fmt.Sprintf("order %s placed for %s", a.order.URL, strings.Join(names, ", ")), func(r *issuanceRow) {
		r.Step, r.OrderUrl, r.Orders = stepAuthorize, a.order.URL, r.Orders+1
	}, func(ctx context.Context, tx *sqldb.Tx, next issuanceRow) error {
		err := New(tx).addOrder(ctx, addOrderParams{UserID: next.UserID, NameSet: nameSet(names), At: a.s.Now().UnixMilli()})
		if err != nil {
			return fmt.Errorf("count order of issuance %d: %w", next.ID, err)
		}
		return nil
	})
}

// newOrder makes the call, which goes on when the run is stopped: an answer
// that nobody hears is an order too many.
func (a *attempt) newOrder(ctx context.Context) error {
	wish := acme.OrderRequest{Names: decodeNames(a.row.Names), Profile: a.account.Profile, Replaces: a.row.Replaces}
	if a.row.ValiditySeconds > 0 {
		wish.NotAfter = a.s.Now().Add(time.Duration(a.row.ValiditySeconds) * time.Second).UTC().Truncate(time.Second)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
	defer cancel()
	order, err := a.client.NewOrder(ctx, a.atCA, wish)
	if err != nil {
		return err
	}
	a.order = order
	return nil
}

// patienceWithPredecessor is how often a CA may fail over an order that names
// a predecessor before it is left out: Pebble, for one, answers 500 for ever
// about a serial number that begins with a zero byte.
const patienceWithPredecessor = 3

// orderRefused leaves out, one after the other, wishes that a CA may not know:
// many refuse a wished validity, some the name of a predecessor.
func (a *attempt) orderRefused(ctx context.Context, err error) error {
	p := acme.AsProblem(err)
	switch {
	case p.Status == http.StatusInternalServerError && a.row.Replaces != "" && a.row.Tries >= patienceWithPredecessor:
		return a.save(ctx, p.Error()+"; ordering without naming the predecessor", func(r *issuanceRow) { r.Replaces = "" }, nil)
	case p.Class != acme.Permanent || p.Type == "":
		return err
	case a.row.ValiditySeconds > 0:
		return a.save(ctx, p.Error()+"; ordering without the wished validity", func(r *issuanceRow) { r.ValiditySeconds = 0 }, nil)
	case a.row.Replaces != "":
		return a.save(ctx, p.Error()+"; ordering without naming the predecessor", func(r *issuanceRow) { r.Replaces = "" }, nil)
	}
	return err
}

// resume looks at the recorded order and finds out where it stands.
func (a *attempt) resume(ctx context.Context) error {
	order, err := a.client.Order(ctx, a.atCA, a.row.OrderUrl)
	if err != nil {
		return err
	}
	a.order = order
	switch order.Status {
	case acme.StatusPending:
		if a.row.Step != stepValidate {
			a.row.Step = stepAuthorize
		}
	case acme.StatusReady:
		if !finalized(a.row.Step) {
			return a.ready(ctx)
		}
		a.row.Step = stepFinalize
	case acme.StatusProcessing, acme.StatusValid:
		a.row.Step = stepDownload
	default:
		return a.invalid(ctx)
	}
	return nil
}

// invalid says why the order failed: what an authorization says names the name.
func (a *attempt) invalid(ctx context.Context) error {
	a.dead = true
	authorizations, err := a.client.Authorizations(ctx, a.atCA, a.order)
	for _, authorization := range authorizations {
		if p := authorization.Problem(); p != nil {
			return p
		}
	}
	if a.order.Problem != nil {
		return a.order.Problem
	}
	if p := acme.AsProblem(err); p != nil && p.Class == acme.Retry {
		a.order = acme.Order{} // look again
		return p
	}
	return &acme.Problem{Op: "order", Detail: "the order is invalid and the CA does not say why", Class: acme.Permanent}
}

// poll looks at the order until it has left the status, as quickly as the CA
// allows. It gives the worker back when that takes long.
func (a *attempt) poll(ctx context.Context, status string, sleep func(context.Context, time.Duration) error) error {
	if a.order.Status != status {
		return nil
	}
	waiter := acme.Waiter{Sleep: sleep, First: firstLook, Patience: heldTime}
	err := waiter.Wait(ctx, a.order.RetryAfter, func(ctx context.Context) (bool, time.Duration, error) {
		order, err := a.client.Order(ctx, a.atCA, a.row.OrderUrl)
		if err != nil {
			return false, 0, err
		}
		a.order = order
		if order.Status != status {
			return true, 0, nil
		}
		if time.Since(a.begin) > budget {
			return false, 0, &acme.Later{After: max(order.RetryAfter, heldTime)}
		}
		return false, order.RetryAfter, nil
	})
	if err == nil && a.order.Status == acme.StatusInvalid {
		return a.invalid(ctx)
	}
	if err != nil && ctx.Err() != nil { // the step's time is over, not a request's
		return &acme.Later{After: heldTime}
	}
	return err
}
