package webhooks

import (
	"context"
	"fmt"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

const (
	scope      = "service_webhooks" // of API keys
	collection = "/apiv1/users/{user_id}/service_webhooks"
	item       = collection + "/{webhook_id}"
	deliveries = item + "/deliveries"
)

// Mount adds the routes of the area.
func (s *Service) Mount(m *web.Mux) {
	read := access.Session().OrKey(scope, "read")
	write := access.Session().OrKey(scope, "write")
	web.RouteReply(m, "GET "+collection, read, s.handleList)
	web.RouteReply(m, "POST "+collection, write, s.handleCreate)
	web.Route(m, "GET "+item, read.On("webhook_id"), s.handleGet)
	web.RouteReply(m, "PUT "+item, write.On("webhook_id"), s.handleUpdate)
	web.RouteReply(m, "DELETE "+item, write.On("webhook_id"), s.handleDelete)
	web.RouteReply(m, "POST "+item+"/test", write.On("webhook_id"), s.handleTest)
	web.RouteReply(m, "GET "+deliveries, read.On("webhook_id"), s.handleDeliveries)
	web.RouteReply(m, "POST "+deliveries+"/{delivery_id}/redeliver", write.On("webhook_id"), s.handleRedeliver)
}

type listInput struct{ web.Page }

func (s *Service) handleList(ctx context.Context, in *listInput) (*web.Reply[[]Webhook], error) {
	caller := access.From(ctx)
	if all, ids := caller.All(scope, "read"); !all {
		list, err := s.listOf(ctx, caller.UserID, ids)
		if err != nil {
			return nil, err
		}
		from := min(in.Offset, int64(len(list)))
		return web.List(list[from:min(from+in.Limit, int64(len(list)))], int64(len(list)), in.Page), nil
	}
	list, total, err := s.List(ctx, caller.UserID, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(list, total, in.Page), nil
}

type createInput struct{ Body Input }

func (s *Service) handleCreate(ctx context.Context, in *createInput) (*web.Reply[Webhook], error) {
	caller := access.From(ctx)
	if all, _ := caller.All(scope, "write"); !all {
		return nil, fault.Forbidden("The API key is limited to named webhooks; creating one needs " + scope + " write on *.")
	}
	w, warnings, err := s.Create(ctx, caller.UserID, in.Body)
	if err != nil {
		return nil, err
	}
	reply := web.Created(location(caller.UserID, w.ID), w)
	reply.Warnings = warnings
	return reply, nil
}

func location(userID, webhookID int64) string {
	return fmt.Sprintf("/apiv1/users/%d/service_webhooks/%d", userID, webhookID)
}

type itemInput struct {
	WebhookID int64 `path:"webhook_id"`
}

func (s *Service) handleGet(ctx context.Context, in *itemInput) (Webhook, error) {
	return s.Get(ctx, access.From(ctx).UserID, in.WebhookID)
}

type updateInput struct {
	WebhookID int64 `path:"webhook_id"`
	Body      Input
}

func (s *Service) handleUpdate(ctx context.Context, in *updateInput) (*web.Reply[Webhook], error) {
	w, warnings, err := s.Update(ctx, access.From(ctx).UserID, in.WebhookID, in.Body)
	if err != nil {
		return nil, err
	}
	return &web.Reply[Webhook]{Data: w, Warnings: warnings}, nil
}

func (s *Service) handleDelete(ctx context.Context, in *itemInput) (*web.Reply[web.None], error) {
	if err := s.Delete(ctx, access.From(ctx).UserID, in.WebhookID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

func (s *Service) handleTest(ctx context.Context, in *itemInput) (*web.Reply[Delivery], error) {
	d, fresh, err := s.Test(ctx, access.From(ctx).UserID, in.WebhookID)
	if err != nil {
		return nil, err
	}
	if !fresh {
		return &web.Reply[Delivery]{Data: d}, nil
	}
	return &web.Reply[Delivery]{Status: http.StatusCreated, Data: d}, nil
}

type deliveriesInput struct {
	WebhookID int64 `path:"webhook_id"`
	web.Page
}

func (s *Service) handleDeliveries(ctx context.Context, in *deliveriesInput) (*web.Reply[[]Delivery], error) {
	list, total, err := s.Deliveries(ctx, access.From(ctx).UserID, in.WebhookID, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(list, total, in.Page), nil
}

type redeliverInput struct {
	WebhookID  int64 `path:"webhook_id"`
	DeliveryID int64 `path:"delivery_id"`
}

func (s *Service) handleRedeliver(ctx context.Context, in *redeliverInput) (*web.Reply[Delivery], error) {
	d, err := s.Redeliver(ctx, access.From(ctx).UserID, in.WebhookID, in.DeliveryID)
	if err != nil {
		return nil, err
	}
	return &web.Reply[Delivery]{Status: http.StatusCreated, Data: d}, nil
}
