package devices

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

// Mount mounts the routes of the area.
func (s *Service) Mount(m *web.Mux) {
	web.Route(m, "POST /auth/device", access.Optional(), s.login)
	web.Route(m, "GET /auth/device", access.Session(), s.waiting)
	web.Raw(m, "GET /device", access.Public(), 0, approvalPage())
	web.RouteReply(m, "POST /auth/refresh", access.Optional(), s.refresh)

	web.RouteReply(m, "POST /apiv1/device/registration", access.Optional(), s.registerByCode)
	web.RouteReply(m, "POST /apiv1/users/{user_id}/devices", access.Session().OrKey("ForDeviceAuthenticate", "authenticate"), s.register)
	web.RouteReply(m, "GET /apiv1/users/{user_id}/devices", access.Session().OrKey("devices", "read"), s.list)
	web.Route(m, "GET /apiv1/users/{user_id}/devices/{device_id}", access.Session().OrKey("devices", "read"), s.notImplemented)
	web.RouteReply(m, "DELETE /apiv1/users/{user_id}/devices/{device_id}", access.Session().OrKey("devices", "write").On("device_id"), s.remove)
	web.Route(m, "GET /apiv1/users/{user_id}/devices/by-public-id/{device_public_id}", access.Session().OrKey("devices", "read"), s.byPublicID)

	confirm := "/apiv1/users/{user_id}/devices/{device_id}/confirm-key"
	web.Route(m, "POST "+confirm, access.Session(), s.confirmKey)
	web.RouteReply(m, "DELETE "+confirm, access.Session(), s.refuseKey)

	web.RouteReply(m, "POST /apiv1/devices/self/notify", access.Device(), s.notify)
}

type registerByCodeInput struct {
	Body struct {
		_ struct{} `json:"-" additionalProperties:"true"`
		DeviceFacts
		UserID           int64  `json:"user_id" minimum:"1" doc:"The user who approved the device login."`
		RegistrationCode string `json:"registration_code,omitempty" maxLength:"200" doc:"Not needed with a refresh_token."`
		RefreshToken     string `json:"refresh_token,omitempty" maxLength:"300" doc:"The last one of a known device, instead of a code; without a session for the same dev_pk alone."`
	}
}

func (s *Service) registerByCode(ctx context.Context, in *registerByCodeInput) (*web.Reply[RegisteredDevice], error) {
	b := &in.Body
	r := Registration{DeviceFacts: b.DeviceFacts, UserID: b.UserID, Code: b.RegistrationCode}
	if b.RegistrationCode == "" {
		r.RefreshToken = b.RefreshToken
	}
	// Onboarding scripts send the cookie of their user beside the token, as to U/devices.
	if caller := access.From(ctx); caller != nil && caller.UserID == b.UserID && r.RefreshToken != "" {
		if err := s.fresh(ctx); err != nil {
			return nil, err
		}
		r.MayRekey = true
	}
	return s.registered(ctx, r)
}

type registerDeviceInput struct {
	Body struct {
		_ struct{} `json:"-" additionalProperties:"true"`
		DeviceFacts
		UserID           int64  `json:"user_id,omitempty" doc:"The caller, when given."`
		RegistrationCode string `json:"registration_code,omitempty" maxLength:"200" doc:"Not needed with an API key."`
		RefreshToken     string `json:"refresh_token,omitempty" maxLength:"300" doc:"The last one of a known device, instead of a code."`
	}
}

func (s *Service) register(ctx context.Context, in *registerDeviceInput) (*web.Reply[RegisteredDevice], error) {
	b, caller := &in.Body, access.From(ctx)
	if b.UserID != 0 && b.UserID != caller.UserID {
		return nil, fault.Forbidden("user_id: is not the caller")
	}
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	return s.registered(ctx, Registration{
		DeviceFacts: b.DeviceFacts, UserID: caller.UserID, Code: b.RegistrationCode, RefreshToken: b.RefreshToken,
		ByKey: caller.Kind == access.KindKey, KeyID: caller.KeyID,
		MayRekey: caller.Kind == access.KindSession || mayRekey(caller),
	})
}

// mayRekey reports whether an API key may give a known device another key.
func mayRekey(c *access.Caller) bool {
	all, _ := c.All("ForDeviceAuthenticate", "rekey")
	return all
}

func (s *Service) registered(ctx context.Context, r Registration) (*web.Reply[RegisteredDevice], error) {
	if r.IP == "" {
		r.IP = web.ClientIP(ctx)
	}
	answer, created, err := s.Enrol(ctx, r)
	if err != nil {
		return nil, err
	}
	if !created {
		return &web.Reply[RegisteredDevice]{Data: answer}, nil
	}
	location := fmt.Sprintf("/apiv1/users/%d/devices/by-public-id/%s", answer.Device.UserID, answer.Device.DevicePublicID)
	return web.Created(location, answer), nil
}

type listDevicesInput struct{ web.Page }

func (s *Service) list(ctx context.Context, in *listDevicesInput) (*web.Reply[[]DeviceRecord], error) {
	records, total, err := s.List(ctx, access.From(ctx), in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(records, total, in.Page), nil
}

type anyDeviceInput struct {
	DeviceID string `path:"device_id"`
}

func (s *Service) notImplemented(context.Context, *anyDeviceInput) (web.None, error) {
	return web.None{}, &fault.Error{
		Code: fault.CodeNotImplemented, Key: "NOT_IMPLEMENTED",
		What: "Reading one device by its id is not implemented; use the list, or …/devices/by-public-id/{device_public_id}.",
	}
}

type deviceInput struct {
	DeviceID int64 `path:"device_id"`
}

func (s *Service) remove(ctx context.Context, in *deviceInput) (*web.Reply[web.None], error) {
	if err := s.Delete(ctx, access.From(ctx).UserID, in.DeviceID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

type publicIDInput struct {
	PublicID string `path:"device_public_id"`
}

func (s *Service) byPublicID(ctx context.Context, in *publicIDInput) (DeviceRecord, error) {
	return s.Find(ctx, access.From(ctx), in.PublicID)
}

type notifyInput struct {
	Body struct {
		_      struct{}         `json:"-" additionalProperties:"true"`
		Schema string           `json:"schema,omitempty" doc:"certctrl.device.notify.v1"`
		Events []map[string]any `json:"events" doc:"Objects with a type; unknown types are ignored."`
	}
}

func (s *Service) notify(ctx context.Context, in *notifyInput) (*web.Reply[web.None], error) {
	caller := access.From(ctx)
	if in.Body.Events == nil {
		return nil, fault.Invalid("events", "must be an array of objects")
	}
	if err := s.Notify(ctx, caller.UserID, caller.DeviceID, in.Body.Events); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
