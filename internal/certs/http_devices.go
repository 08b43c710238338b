package certs

import (
	"context"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// mountDevices adds what a person does with the certificates of a device, and
// the one way in which an API key assigns.
func (s *Service) mountDevices(m *web.Mux) {
	of := "/apiv1/users/{user_id}/devices/{device_id}/certificates"
	web.RouteReply(m, "GET "+of, access.Session(), s.handleListOfDevice)
	web.RouteReply(m, "POST "+of, access.Session(), s.handleAssign)
	web.RouteReply(m, "DELETE "+of+"/{certificate_id}", access.Session(), s.handleUnassign)
	web.RouteReply(m, "GET "+of+"/{certificate_id}/bundle", access.Session(), s.handleDeviceBundle)
	web.RouteReply(m, "POST /apiv1/users/{user_id}/certificate-assign", access.Key(scope, "read"), s.handleAssignByKey)
}

// huma looks into embedded types only where they are exported.
type listOfDeviceInput struct {
	web.Page
	Detail   string `query:"detail" maxLength:"20" doc:"most: with cert, csr and the other long members."`
	DeviceID int64  `path:"device_id"`
}

type assignInput struct {
	DeviceID int64 `path:"device_id"`
	Body     struct {
		CertID int64 `json:"cert_id" minimum:"1"`
	}
}

type assignmentInput struct {
	DeviceID int64 `path:"device_id"`
	ID       int64 `path:"certificate_id"`
}

type deviceBundleInput struct {
	DeviceID int64  `path:"device_id"`
	ID       int64  `path:"certificate_id"`
	Pack     string `query:"pack" maxLength:"20" doc:"download: as a file."`
}

type assignByKeyInput struct {
	Body struct {
		_              struct{} `json:"-" additionalProperties:"true"`
		DevicePublicID string   `json:"device_public_id" maxLength:"200"`
	}
}

// Assigned is the answer to an assignment whose key is not sealed to the device
// yet.
type Assigned struct {
	WrapReady bool `json:"wrap_ready"`
}

func (s *Service) handleListOfDevice(ctx context.Context, in *listOfDeviceInput) (*web.Reply[[]Certificate], error) {
	if _, err := s.Devices.Get(ctx, s.DB.Reader(), access.From(ctx).UserID, in.DeviceID); err != nil {
		return nil, err
	}
	return s.reply(ctx, ofDevice(ctx, in.DeviceID), 0, in.Page, in.Detail)
}

func (s *Service) handleAssign(ctx context.Context, in *assignInput) (*web.Reply[*Assigned], error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	pending, err := s.assignByID(ctx, access.From(ctx).UserID, in.DeviceID, in.Body.CertID)
	return assignment(pending), err
}

func (s *Service) handleAssignByKey(ctx context.Context, in *assignByKeyInput) (*web.Reply[*Assigned], error) {
	pending, err := s.assignByKey(ctx, access.From(ctx), in.Body.DevicePublicID)
	return assignment(pending), err
}

// assignment is 204, or 200 while the key is not sealed to the device
// (decisions.md 8.5).
func assignment(pending bool) *web.Reply[*Assigned] {
	if pending {
		return &web.Reply[*Assigned]{Data: &Assigned{}}
	}
	return &web.Reply[*Assigned]{Status: http.StatusNoContent}
}

func (s *Service) handleUnassign(ctx context.Context, in *assignmentInput) (*web.Reply[web.None], error) {
	if err := s.unassign(ctx, access.From(ctx).UserID, in.DeviceID, in.ID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

func (s *Service) handleDeviceBundle(ctx context.Context, in *deviceBundleInput) (*web.Reply[*DeployMaterials], error) {
	caller := access.From(ctx)
	if _, err := s.Devices.Get(ctx, s.DB.Reader(), caller.UserID, in.DeviceID); err != nil {
		return nil, err
	}
	m, err := s.deployMaterials(ctx, caller, in.DeviceID, in.ID)
	if err != nil {
		return nil, err
	}
	return packed(m, in.ID, in.Pack), nil
}

// packed is the materials, as a file where that is asked for.
func packed(m *DeployMaterials, certID int64, pack string) *web.Reply[*DeployMaterials] {
	reply := &web.Reply[*DeployMaterials]{Data: m, Header: http.Header{}}
	if pack == "download" {
		reply.Header.Set("Content-Disposition", `attachment; filename="`+m.filename(certID)+`"`)
	}
	return reply
}
