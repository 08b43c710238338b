package names

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

func (s *Service) mountAdmin(m *web.Mux) {
	const list = "/apiv1/admin/names"
	const one = list + "/{name_id}"
	web.RouteReply(m, "GET "+list, access.Admin(), s.handleFind)
	web.RouteReply(m, "POST "+list, access.Admin().Fresh(), s.handleGive)
	web.Route(m, "PUT "+one, access.Admin().Fresh(), s.handleMove)
	web.RouteReply(m, "DELETE "+one, access.Admin().Fresh(), s.handleFree)
}

type findInput struct {
	web.Page
	Name  string `query:"name" maxLength:"1012" doc:"All names in the registrable domain of this one."`
	State string `query:"state" enum:"PENDING,HELD,CLASH" doc:"Those in this state alone."`
}

type giveInput struct {
	Body struct {
		UserID int64  `json:"user_id" minimum:"1"`
		Name   string `json:"name" minLength:"1" maxLength:"1012" doc:"A name or an IP address."`
	}
}

type moveInput struct {
	NameID int64 `path:"name_id"`
	Body   struct {
		UserID int64 `json:"user_id" minimum:"1" doc:"Who holds the name from now on."`
	}
}

func (s *Service) handleFind(ctx context.Context, in *findInput) (*web.Reply[[]Claim], error) {
	list, total, err := s.Find(ctx, Search{Name: in.Name, State: in.State}, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(list, total, in.Page), nil
}

func (s *Service) handleGive(ctx context.Context, in *giveInput) (*web.Reply[Claim], error) {
	c, given, err := s.Give(ctx, user(ctx), in.Body.UserID, in.Body.Name)
	if err != nil {
		return nil, err
	}
	if !given {
		return &web.Reply[Claim]{Data: c}, nil
	}
	return web.Created(fmt.Sprintf("/apiv1/admin/names/%d", c.ID), c), nil
}

func (s *Service) handleMove(ctx context.Context, in *moveInput) (Claim, error) {
	return s.Move(ctx, user(ctx), in.NameID, in.Body.UserID)
}

func (s *Service) handleFree(ctx context.Context, in *nameInput) (*web.Reply[web.None], error) {
	return done(s.Free(ctx, user(ctx), in.NameID))
}
