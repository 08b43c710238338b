package certs

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the routes of the area.
func (s *Service) Mount(m *web.Mux) {
	read := access.Session().OrKey(scope, "read")
	write := access.Session().OrKey(scope, "write")
	one := "/apiv1/users/{user_id}/certificates/{certificate_id}"
	web.RouteReply(m, "GET /apiv1/users/{user_id}/certificates", read, s.handleList)
	web.RouteReply(m, "POST /apiv1/users/{user_id}/certificates", write, s.handleCreate, web.Large)
	web.RouteReply(m, "GET /apiv1/users/{user_id}/acme-accounts/{acme_account_id}/certificates", read, s.handleListOfAccount)
	web.Route(m, "GET "+one, read.On("certificate_id"), s.handleGet)
	web.RouteReply(m, "PUT "+one, write.On("certificate_id"), s.handlePut, web.Large)
	web.RouteReply(m, "DELETE "+one, write.On("certificate_id"), s.handleDelete)
	web.Raw(m, "GET "+one+"/export", access.Session().OrKey(scope, "read", "issue").On("certificate_id"), 0, s.handleExport, web.Heavy)

	s.mountDevices(m)
	s.mountSelf(m)
}

type listInput struct {
	web.Page
	Detail string `query:"detail" maxLength:"20" doc:"most: with cert, csr and the other long members."`
}

type listOfAccountInput struct {
	web.Page
	Detail    string `query:"detail" maxLength:"20" doc:"most: with cert, csr and the other long members."`
	AccountID int64  `path:"acme_account_id"`
}

type idInput struct {
	ID int64 `path:"certificate_id"`
}

type createInput struct{ Body Draft }

type putInput struct {
	ID   int64 `path:"certificate_id"`
	Body struct {
		Action string `json:"action,omitempty" enum:"update,verify_domain,revoke,rekey" default:"update"`
		Reason *int64 `json:"reason,omitempty" nullable:"true" doc:"revoke: code of RFC 5280 section 5.3.1, default 0."`
		Fields
	}
}

func (s *Service) handleList(ctx context.Context, in *listInput) (*web.Reply[[]Certificate], error) {
	return s.reply(ctx, ofUser(ctx, access.From(ctx).UserID), 0, in.Page, in.Detail)
}

func (s *Service) handleListOfAccount(ctx context.Context, in *listOfAccountInput) (*web.Reply[[]Certificate], error) {
	if _, err := s.Accounts.Get(ctx, s.DB.Reader(), access.From(ctx).UserID, in.AccountID); err != nil {
		return nil, err
	}
	return s.reply(ctx, ofAccount(ctx, in.AccountID), in.AccountID, in.Page, in.Detail)
}

// reply is a page of the source, or what a limited key may see of it.
func (s *Service) reply(ctx context.Context, from source, acctID int64, page web.Page, detail string) (*web.Reply[[]Certificate], error) {
	most := detail == "most"
	caller := access.From(ctx)
	if all, ids := caller.All(scope, "read"); !all {
		records, total, err := s.named(ctx, caller.UserID, acctID, ids, page, most)
		if err != nil {
			return nil, err
		}
		return web.List(records, total, page), nil
	}
	records, total, err := s.list(ctx, from, page, most)
	if err != nil {
		return nil, err
	}
	return web.List(records, total, page), nil
}

func (s *Service) handleCreate(ctx context.Context, in *createInput) (*web.Reply[*Certificate], error) {
	caller := access.From(ctx)
	if all, _ := caller.All(scope, "write"); !all {
		return nil, fault.Forbidden("The API key is limited to named certificates and cannot make new ones.")
	}
	c, warnings, err := s.create(ctx, caller.UserID, &in.Body)
	if err != nil {
		return nil, err
	}
	reply := web.Created(fmt.Sprintf("/apiv1/users/%d/certificates/%d", c.UserID, c.ID), &c)
	reply.Warnings = warnings
	return reply, nil
}

func (s *Service) handleGet(ctx context.Context, in *idInput) (*Certificate, error) {
	c, err := s.Record(ctx, s.DB.Reader(), access.From(ctx).UserID, in.ID)
	return &c, err
}

func (s *Service) handlePut(ctx context.Context, in *putInput) (*web.Reply[*Certificate], error) {
	caller, b := access.From(ctx), &in.Body
	if b.Reason != nil && b.Action != "revoke" {
		return nil, fault.Invalid("reason", "belongs to the action revoke")
	}
	if (b.Action == "verify_domain" || b.Action == "revoke") && !b.empty() {
		return nil, fault.Invalid("action", "%s changes no members; use update for them", b.Action)
	}
	var c Certificate
	var warnings []string
	var err error
	switch b.Action {
	case "verify_domain":
		return &web.Reply[*Certificate]{Status: http.StatusNoContent}, s.verifyDomain(ctx, caller.UserID, in.ID)
	case "revoke":
		var reason int64
		set(&reason, b.Reason)
		c, err = s.revoke(ctx, caller.UserID, in.ID, reason)
	case "rekey":
		if !caller.May(scope, "issue", in.ID) {
			return nil, fault.Forbidden("The API key lacks the required permissions: certificates issue.")
		}
		c, err = s.rekey(ctx, caller.UserID, in.ID, &b.Fields)
	default:
		c, warnings, err = s.update(ctx, caller.UserID, in.ID, &b.Fields)
	}
	return &web.Reply[*Certificate]{Data: &c, Warnings: warnings}, err
}

func (s *Service) handleDelete(ctx context.Context, in *idInput) (*web.Reply[web.None], error) {
	if err := s.remove(ctx, access.From(ctx).UserID, in.ID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

func (s *Service) handleExport(w http.ResponseWriter, r *http.Request) error {
	id, err := strconv.ParseInt(r.PathValue("certificate_id"), 10, 64)
	if err != nil {
		return errNotFound()
	}
	format, err := ParseFormat(r.URL.Query().Get("format"))
	if err != nil {
		return err
	}
	file, err := s.export(r.Context(), access.From(r.Context()), id, format)
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", file.ContentType)
	header.Set("Content-Length", strconv.Itoa(len(file.Body)))
	header.Set("Content-Disposition", `attachment; filename="`+file.Name+`"`)
	header.Set("Cache-Control", "no-store")
	if file.Password != "" {
		header.Set("X-Export-Password", file.Password)
	}
	_, err = w.Write(file.Body)
	return err
}
