package issuance

import (
	"context"
	"fmt"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

const scope = "certificates"

// Mount adds the routes of the area.
func (s *Service) Mount(m *web.Mux) {
	const issues = "/apiv1/users/{user_id}/certificates/{certificate_id}/issues"
	read := access.Session().OrKey(scope, "read").On("certificate_id")
	issue := access.Session().OrKey(scope, "read", "issue").On("certificate_id")
	web.RouteReply(m, "POST "+issues, issue, s.handleStart)
	web.RouteReply(m, "GET "+issues, read, s.handleList)
	web.RouteReply(m, "GET "+issues+"/history", read, s.handleList)
	web.Route(m, "GET "+issues+"/{issue_id}", read, s.handleGet)
	web.RouteReply(m, "DELETE "+issues+"/{issue_id}", issue, s.handleCancel)
	web.Raw(m, "GET "+challengePath+"{token}", access.Public(), 0, func(w http.ResponseWriter, r *http.Request) error {
		return s.answer(w, r, r.URL.Path[len(challengePath):])
	})
}

// CertInput names the certificate; exported, since huma passes over embedded
// types that are not.
type CertInput struct {
	CertificateID int64 `path:"certificate_id"`
}

type startInput struct {
	CertInput
	Body *struct {
		ValiditySeconds int64 `json:"validity_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"The wished validity; 0 or absent: the CA's choice."`
		Force           bool  `json:"force,omitempty" doc:"Order although three orders for these names were placed within 24 hours."`
	}
}

type listInput struct {
	CertInput
	web.Page
}

type issueInput struct {
	CertInput
	IssueID int64 `path:"issue_id"`
}

func (s *Service) handleStart(ctx context.Context, in *startInput) (*web.Reply[Issuance], error) {
	caller := access.From(ctx)
	wish := order{trigger: TriggerManual}
	if caller.Kind == access.KindKey {
		wish.trigger = TriggerKey
	}
	if in.Body != nil {
		wish.validitySeconds, wish.force = in.Body.ValiditySeconds, in.Body.Force
	}
	issuance, created, err := s.start(ctx, caller.UserID, in.CertificateID, wish)
	if err != nil {
		return nil, err
	}
	if !created {
		return &web.Reply[Issuance]{Data: issuance}, nil
	}
	location := fmt.Sprintf("/apiv1/users/%d/certificates/%d/issues/%d", caller.UserID, in.CertificateID, issuance.ID)
	return web.Created(location, issuance), nil
}

func (s *Service) handleList(ctx context.Context, in *listInput) (*web.Reply[[]Issuance], error) {
	list, total, err := s.List(ctx, access.From(ctx).UserID, in.CertificateID, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(list, total, in.Page), nil
}

func (s *Service) handleGet(ctx context.Context, in *issueInput) (Issuance, error) {
	return s.Get(ctx, access.From(ctx).UserID, in.CertificateID, in.IssueID)
}

func (s *Service) handleCancel(ctx context.Context, in *issueInput) (*web.Reply[web.None], error) {
	if err := s.Cancel(ctx, access.From(ctx).UserID, in.CertificateID, in.IssueID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
