package feed

import (
	"context"
	"net/http"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// Page is the data of an answer with entries.
type Page struct {
	Cursor  string  `json:"cursor" doc:"The id of the last signal; send it with the next request."`
	Signals []Entry `json:"signals"`
}

type updatesInput struct {
	IfNoneMatch string `header:"If-None-Match" doc:"The cursor as an entity tag; wins over the parameter."`
	Cursor      string `query:"cursor" doc:"The cursor of the last answer; absent: from the oldest signal."`
	Limit       int64  `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"How many signals at the most."`
	Wait        int64  `query:"wait" minimum:"0" maximum:"30" default:"0" doc:"How many seconds to wait for the first signal."`
}

// Mount adds the route of the area.
func (s *Service) Mount(m *web.Mux) {
	web.RouteReply(m, "GET /apiv1/devices/self/updates", access.Device(), s.updates)
}

func (s *Service) updates(ctx context.Context, in *updatesInput) (*web.Reply[Page], error) {
	after, err := requested(in.IfNoneMatch, in.Cursor)
	if err != nil {
		return nil, err
	}
	deviceID := access.From(ctx).DeviceID
	if in.Wait == 0 {
		if idle := s.heads.idle(deviceID, after); idle != nil {
			return idle, nil
		}
	}
	var found batch
	if in.Wait == 0 {
		found, err = s.read(ctx, deviceID, after, in.Limit)
	} else {
		found, err = s.wait(ctx, deviceID, after, in.Limit, time.Duration(in.Wait)*time.Second)
	}
	if err != nil {
		return nil, err
	}
	if len(found.entries) == 0 {
		return nothing(after, s.heads.interval), nil
	}
	interval := s.heads.interval
	if found.more { // a device that was away need not wait for each part
		interval = "1"
	}
	last := found.entries[len(found.entries)-1].ID
	return &web.Reply[Page]{Header: headers(last, interval), Data: Page{Cursor: last.String(), Signals: found.entries}}, nil
}

// nothing is the 204. Its parts are never changed, so that it can be kept.
func nothing(at Cursor, interval string) *web.Reply[Page] {
	return &web.Reply[Page]{Status: http.StatusNoContent, Header: headers(at, interval)}
}

func headers(at Cursor, interval string) http.Header {
	return http.Header{"Etag": {`"` + at.String() + `"`}, "X-Poll-Interval": {interval}, "Cache-Control": {"no-store"}}
}
