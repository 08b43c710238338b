package apikeys

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the routes of the area. Keys are managed by people alone.
func (s *Service) Mount(m *web.Mux) {
	const (
		collection = "/apiv1/users/{user_id}/apikeys"
		item       = collection + "/{apikey_id}"
	)
	web.RouteReply(m, "GET /apiv1/permissions/catalog", access.Public(), handleCatalog)
	web.RouteReply(m, "GET "+collection, access.Session(), s.handleList)
	web.RouteReply(m, "POST "+collection, access.Session(), s.handleCreate)
	web.Route(m, "GET "+item, access.Session(), s.handleGet)
	web.Route(m, "PATCH "+item, access.Session(), s.handleUpdate)
	web.RouteReply(m, "DELETE "+item, access.Session(), s.handleDelete)
}

type pageInput struct{ web.Page }

func handleCatalog(_ context.Context, in *pageInput) (*web.Reply[[]PermissionScope], error) {
	return web.ListAll(Catalog(), in.Page), nil
}

func (s *Service) handleList(ctx context.Context, in *pageInput) (*web.Reply[[]APIKey], error) {
	keys, total, err := s.List(ctx, access.From(ctx).UserID, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(keys, total, in.Page), nil
}

type createInput struct{ Body NewKey }

func (s *Service) handleCreate(ctx context.Context, in *createInput) (*web.Reply[CreatedKey], error) {
	userID := access.From(ctx).UserID
	created, err := s.Create(ctx, userID, in.Body)
	if err != nil {
		return nil, err
	}
	return web.Created(fmt.Sprintf("/apiv1/users/%d/apikeys/%d", userID, created.ID), created), nil
}

type itemInput struct {
	ID int64 `path:"apikey_id"`
}

func (s *Service) handleGet(ctx context.Context, in *itemInput) (APIKey, error) {
	return s.Get(ctx, access.From(ctx).UserID, in.ID)
}

type updateInput struct {
	ID   int64 `path:"apikey_id"`
	Body KeyChange
}

func (s *Service) handleUpdate(ctx context.Context, in *updateInput) (APIKey, error) {
	return s.Update(ctx, access.From(ctx).UserID, in.ID, in.Body)
}

func (s *Service) handleDelete(ctx context.Context, in *itemInput) (*web.Reply[web.None], error) {
	if err := s.Delete(ctx, access.From(ctx).UserID, in.ID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
