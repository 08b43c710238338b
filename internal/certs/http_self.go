package certs

import (
	"context"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// mountSelf adds what a device fetches for itself (wire.md 7.3, 7.4).
func (s *Service) mountSelf(m *web.Mux) {
	one := "GET /apiv1/devices/self/certificates/{certificate_id}"
	web.Route(m, one, access.Device(), s.handleSelf)
	web.RouteReply(m, one+"/deploy-materials", access.Device(), s.handleSelfMaterials)
	web.RouteReply(m, one+"/bundle", access.Device(), s.handleSelfMaterials)
}

type selfInput struct {
	ID   int64  `path:"certificate_id"`
	Pack string `query:"pack" maxLength:"20" doc:"download: as a file."`
}

func (s *Service) handleSelf(ctx context.Context, in *selfInput) (*DeviceCertificate, error) {
	return s.deviceCertificate(ctx, access.From(ctx), in.ID)
}

func (s *Service) handleSelfMaterials(ctx context.Context, in *selfInput) (*web.Reply[*DeployMaterials], error) {
	caller := access.From(ctx)
	m, err := s.deployMaterials(ctx, caller, caller.DeviceID, in.ID)
	if err != nil {
		return nil, err
	}
	return packed(m, in.ID, in.Pack), nil
}
