package wiretest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"
)

type config struct {
	version  int64
	installs any
	script   *string
	at       int64
}

// SetConfig writes the install-config: installs marshals to an array of items,
// script may be empty for none.
func (s *Server) SetConfig(installs any, script string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.version++
	s.config.installs, s.config.script, s.config.at = installs, nil, time.Now().Unix()
	if script != "" {
		s.config.script = &script
	}
	s.signal("install.updated", map[string]any{"config_id": 1, "version": s.config.version, "installs_hash_b64": s.config.hash()})
}

func (c config) hash() string {
	if c.installs == nil {
		return ""
	}
	sum := sha256.Sum256(must(json.Marshal(c.installs)))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (s *Server) installConfig(w http.ResponseWriter, _ *http.Request, d *device) {
	installs := s.config.installs
	if installs == nil {
		installs = []any{}
	}
	data(w, http.StatusOK, map[string]any{
		"id": 1, "user_device_id": d.id, "version": s.config.version, "installs": installs, "installs_hash": s.config.hash(),
		"after_update_script": s.config.script, "updated_by": "wiretest", "created_at": s.config.at, "updated_at": s.config.at,
	})
}

func (s *Server) notify(w http.ResponseWriter, r *http.Request, _ *device) {
	var in struct {
		Events []json.RawMessage `json:"events"`
	}
	if !body(w, r, &in) {
		return
	}
	if in.Events == nil {
		fail(w, http.StatusBadRequest, 5000, "", nil)
		return
	}
	s.notified = append(s.notified, in.Events...)
	s.changed.Broadcast()
	w.WriteHeader(http.StatusNoContent)
}

// Notified gives all events the devices have reported so far.
func (s *Server) Notified() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]json.RawMessage(nil), s.notified...)
}
