package names

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the routes of the area. None takes an API key: a key that could
// change whose a name is could do more than its owner meant.
func (s *Service) Mount(m *web.Mux) {
	const list = "/apiv1/users/{user_id}/names"
	const one = list + "/{name_id}"
	session := access.Session()
	web.RouteReply(m, "GET "+list, session, s.handleList)
	web.RouteReply(m, "POST "+list, session, s.handleBegin)
	web.Route(m, "GET "+one, session, s.handleGet)
	web.Route(m, "POST "+one+"/verify", session, s.handleVerify)
	web.RouteReply(m, "DELETE "+one, session, s.handleRelease)
	web.RouteReply(m, "GET "+one+"/grants", session, s.handleGrants)
	web.RouteReply(m, "POST "+one+"/grants", session, s.handleGrant)
	web.RouteReply(m, "DELETE "+one+"/grants/{grant_id}", session, s.handleUngrant)
	s.mountAdmin(m)
}

type nameInput struct {
	NameID int64 `path:"name_id"`
}

type grantInput struct {
	NameID  int64 `path:"name_id"`
	GrantID int64 `path:"grant_id"`
}

type listInput struct{ web.Page }

type grantsInput struct {
	web.Page
	NameID int64 `path:"name_id"`
}

type beginInput struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"1012" doc:"The name to prove, for example example.com."`
	}
}

type grantDraftInput struct {
	NameID int64 `path:"name_id"`
	Body   GrantDraft
}

func user(ctx context.Context) int64 { return access.From(ctx).UserID }

func (s *Service) handleList(ctx context.Context, in *listInput) (*web.Reply[[]Claim], error) {
	list, total, err := s.List(ctx, user(ctx), in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(list, total, in.Page), nil
}

func (s *Service) handleBegin(ctx context.Context, in *beginInput) (*web.Reply[Claim], error) {
	c, created, err := s.Begin(ctx, user(ctx), in.Body.Name)
	if err != nil {
		return nil, err
	}
	if !created {
		return &web.Reply[Claim]{Data: c}, nil
	}
	return web.Created(fmt.Sprintf("/apiv1/users/%d/names/%d", user(ctx), c.ID), c), nil
}

func (s *Service) handleGet(ctx context.Context, in *nameInput) (Claim, error) {
	return s.Get(ctx, user(ctx), in.NameID)
}

func (s *Service) handleVerify(ctx context.Context, in *nameInput) (Claim, error) {
	return s.Verify(ctx, user(ctx), in.NameID)
}

func (s *Service) handleRelease(ctx context.Context, in *nameInput) (*web.Reply[web.None], error) {
	return done(s.Release(ctx, user(ctx), in.NameID))
}

func (s *Service) handleGrants(ctx context.Context, in *grantsInput) (*web.Reply[[]Grant], error) {
	list, err := s.Grants(ctx, user(ctx), in.NameID)
	if err != nil {
		return nil, err
	}
	return web.ListAll(list, in.Page), nil
}

func (s *Service) handleGrant(ctx context.Context, in *grantDraftInput) (*web.Reply[Grant], error) {
	g, err := s.Grant(ctx, user(ctx), in.NameID, in.Body)
	if err != nil {
		return nil, err
	}
	return web.Created(fmt.Sprintf("/apiv1/users/%d/names/%d/grants/%d", user(ctx), in.NameID, g.ID), g), nil
}

func (s *Service) handleUngrant(ctx context.Context, in *grantInput) (*web.Reply[web.None], error) {
	return done(s.Ungrant(ctx, user(ctx), in.NameID, in.GrantID))
}

func done(err error) (*web.Reply[web.None], error) {
	if err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
