package installs

import (
	"context"
	"encoding/json"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the routes of the area.
func (s *Service) Mount(m *web.Mux) {
	const config = "/apiv1/users/{user_id}/devices/{device_id}/install-config"
	reader := access.Session().OrKey("devices", "read").On("device_id")
	writer := access.Session().OrKey("devices", "write").On("device_id")
	web.Route(m, "GET "+config, reader, s.get, web.Heavy)
	web.RouteReply(m, "PUT "+config, writer, s.put, web.Large, web.Heavy)
	web.RouteReply(m, "POST "+config+"/restore", writer, s.restore, web.Heavy)
	web.RouteReply(m, "GET /apiv1/users/{user_id}/devices/{device_id}/install-config-histories", reader, s.histories)
	web.RouteReply(m, "POST /apiv1/users/{user_id}/install-config-update/{device_public_id}", access.Key("ForInstallConfigUpdate", "update"), s.patch, web.Large)
	web.Route(m, "GET /apiv1/devices/self/install-config", access.Device(), s.own, web.Heavy)
}

type deviceInput struct {
	DeviceID int64 `path:"device_id"`
}

func (s *Service) get(ctx context.Context, in *deviceInput) (Config, error) {
	return s.Get(ctx, access.From(ctx).UserID, in.DeviceID)
}

func (s *Service) own(ctx context.Context, _ *struct{}) (Config, error) {
	return s.Own(ctx, access.From(ctx).DeviceID)
}

type putInput struct {
	DeviceID int64 `path:"device_id"`
	Body     struct {
		Installs   []Item         `json:"installs" nullable:"false"`
		Script     optionalScript `json:"after_update_script,omitzero" nullable:"true" doc:"Kept when absent, cleared by null."`
		ChangeNote string         `json:"change_note,omitempty" maxLength:"1000"`
	}
}

// optionalScript tells absent, null and a text apart. It is a text to web, so
// that the document says "string or null".
type optionalScript struct{ Script }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *optionalScript) UnmarshalText(text []byte) error {
	s := string(text)
	o.Script = Script{Set: true, Text: &s}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *optionalScript) UnmarshalJSON(raw []byte) error {
	o.Script = Script{Set: true}
	return json.Unmarshal(raw, &o.Text)
}

func (s *Service) put(ctx context.Context, in *putInput) (*web.Reply[Config], error) {
	config, warnings, err := s.Put(ctx, access.From(ctx).UserID, in.DeviceID, Update{Installs: in.Body.Installs, Script: in.Body.Script.Script, ChangeNote: in.Body.ChangeNote})
	return &web.Reply[Config]{Data: config, Warnings: warnings}, err
}

type restoreInput struct {
	DeviceID int64 `path:"device_id"`
	Body     struct {
		Version    int64  `json:"version" minimum:"1"`
		ChangeNote string `json:"change_note,omitempty" maxLength:"1000"`
	}
}

func (s *Service) restore(ctx context.Context, in *restoreInput) (*web.Reply[Config], error) {
	config, warnings, err := s.Restore(ctx, access.From(ctx).UserID, in.DeviceID, in.Body.Version, in.Body.ChangeNote)
	return &web.Reply[Config]{Data: config, Warnings: warnings}, err
}

type historiesInput struct {
	web.Page

	DeviceID int64 `path:"device_id"`
	Version  int64 `query:"version" minimum:"1" doc:"Answers this version alone, as an object with its installs and script."`
}

// histories answers a list, or one version: two shapes under one path.
func (s *Service) histories(ctx context.Context, in *historiesInput) (*web.Reply[any], error) {
	userID := access.From(ctx).UserID
	if in.Version != 0 {
		version, err := s.Version(ctx, userID, in.DeviceID, in.Version)
		return &web.Reply[any]{Data: version}, err
	}
	list, total, err := s.Histories(ctx, userID, in.DeviceID, in.Offset, in.Limit)
	return &web.Reply[any]{Data: list, Meta: web.List(list, total, in.Page).Meta}, err
}

type patchInput struct {
	DevicePublicID string          `path:"device_public_id"`
	Body           json.RawMessage `doc:"An array of patches, or an object with patches, after_update_script or both."`
}

func (s *Service) patch(ctx context.Context, in *patchInput) (*web.Reply[Patched], error) {
	changes, err := ParseChanges(in.Body)
	if err != nil {
		return nil, err
	}
	config, warnings, err := s.Patch(ctx, access.From(ctx), in.DevicePublicID, changes)
	if err != nil {
		return nil, err
	}
	done := Patched{ConfigID: config.ID, Version: config.Version, InstallsHash: config.InstallsHash}
	return &web.Reply[Patched]{Data: done, Warnings: warnings}, nil
}
