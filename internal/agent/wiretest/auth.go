package wiretest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type flow struct {
	userCode, status, code string
}

// rotation is how a refresh token was spent. The same requestID gives a fresh
// pair as long as successor is unused (docs/decisions/0010).
type rotation struct {
	requestID string // "": none, not good for a replay
	successor string
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9_-]{16,64}$`)

var publicID = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (s *Server) authDevice(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Action     string `json:"action"`
		DeviceCode string `json:"device_code"`
	}
	if !body(w, r, &in) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch in.Action {
	case "device_start":
		s.startFlow(w)
	case "device_poll":
		s.pollFlow(w, in.DeviceCode)
	default:
		fail(w, http.StatusBadRequest, 5000, "", nil)
	}
}

func (s *Server) startFlow(w http.ResponseWriter) {
	code := random(16)
	user := fmt.Sprintf("ABCD-%04d", len(s.flows)+1)
	s.flows[code] = &flow{userCode: user, status: "authorization_pending"}
	data(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": user, "interval": 1, "expires_in": 900,
		"verification_uri": s.URL + "/device", "verification_uri_complete": s.URL + "/device?user_code=" + user,
	})
}

func (s *Server) pollFlow(w http.ResponseWriter, code string) {
	f := s.flows[code]
	if f == nil {
		fail(w, http.StatusBadRequest, 5000, "", nil)
		return
	}
	if s.AutoApprove && f.status == "authorization_pending" {
		f.status = "ready"
	}
	out := map[string]any{"status": f.status}
	if f.status == "ready" {
		if f.code == "" {
			f.code = random(16)
			s.codes[f.code] = false
		}
		out["registration_code"], out["registration_code_ttl"], out["user_id"] = f.code, 300, UserID
	}
	data(w, http.StatusOK, out)
}

// Answer ends every waiting device login with status, for example ready,
// access_denied or slow_down.
func (s *Server) Answer(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows {
		f.status = status
	}
}

type registration struct {
	UserID           int64  `json:"user_id"`
	RegistrationCode string `json:"registration_code"`
	DevicePublicID   string `json:"device_public_id"`
	DevPK            string `json:"dev_pk"`
}

func (s *Server) registerByCode(w http.ResponseWriter, r *http.Request) {
	var in registration
	if !body(w, r, &in) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	used, known := s.codes[in.RegistrationCode]
	if r.Header.Get("Authorization") != "" || in.UserID != UserID || !known {
		fail(w, http.StatusBadRequest, 5000, "", nil)
		return
	}
	// decisions.md 7.5: a lost answer must not strand the device.
	if d := s.devices[in.DevicePublicID]; used && (d == nil || base64.StdEncoding.EncodeToString(d.pk) != in.DevPK) {
		fail(w, http.StatusBadRequest, 5000, "", nil)
		return
	}
	if s.register(w, in) {
		s.codes[in.RegistrationCode] = true
	}
}

func (s *Server) registerByKey(w http.ResponseWriter, r *http.Request) {
	var in registration
	if !body(w, r, &in) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+APIKey {
		fail(w, http.StatusUnauthorized, 5018, "", nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.register(w, in)
}

func (s *Server) register(w http.ResponseWriter, in registration) bool {
	pk, err := base64.StdEncoding.DecodeString(in.DevPK)
	if err != nil || len(pk) != 32 || !publicID.MatchString(in.DevicePublicID) {
		fail(w, http.StatusBadRequest, 5000, "", nil)
		return false
	}
	status := http.StatusOK
	d := s.devices[in.DevicePublicID]
	if d == nil {
		d = &device{id: int64(len(s.devices) + 1), publicID: in.DevicePublicID, spent: map[string]rotation{}}
		s.devices[in.DevicePublicID] = d
		status = http.StatusCreated
	}
	d.pk = pk
	data(w, status, map[string]any{
		"device":  map[string]any{"id": d.id, "user_id": UserID, "device_public_id": d.publicID, "name": "d", "status": "ACTIVE"},
		"session": s.pair(d, ""),
	})
	return true
}

// pair makes new tokens; the old refresh token is spent by this request.
func (s *Server) pair(d *device, requestID string) map[string]any {
	next := "rt_" + random(16) + "." + random(16)
	if d.refresh != "" {
		d.spent[d.refresh] = rotation{requestID, next}
	}
	d.refresh = next
	d.gen++
	return map[string]any{
		"access_token": s.jwt(d), "refresh_token": d.refresh, "token_type": "Bearer",
		"expires_in": int64(s.TokenLifetime / time.Second),
	}
}

func (s *Server) authRefresh(w http.ResponseWriter, r *http.Request) {
	var in struct {
		RefreshToken string  `json:"refresh_token"`
		RequestID    *string `json:"request_id"`
	}
	if !body(w, r, &in) {
		return
	}
	id := ""
	if in.RequestID != nil {
		if id = *in.RequestID; !requestID.MatchString(id) {
			fail(w, http.StatusBadRequest, 5000, "", nil)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		was, spent := d.spent[in.RefreshToken]
		replayed := spent && id != "" && was.requestID == id && was.successor == d.refresh
		if spent && !replayed {
			fail(w, http.StatusUnauthorized, 10003, "refresh_token_rotated", nil)
			return
		}
		if (replayed || in.RefreshToken == d.refresh) && r.Header.Get("Authorization") == "" {
			out := s.pair(d, id)
			if replayed { // the pair that was never received is dead, and no way back to here
				d.spent[was.successor] = rotation{}
				d.spent[in.RefreshToken] = rotation{id, d.refresh}
			}
			out["session"] = maps.Clone(out)
			data(w, http.StatusOK, out)
			return
		}
	}
	fail(w, http.StatusUnauthorized, 5018, "", nil)
}

// Forget deletes all devices: their tokens are unknown from now on.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.devices)
}

// Revoke ends all access tokens that were given out; refresh tokens stay.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret = []byte(random(32))
}

func (s *Server) jwt(d *device) string {
	payload, err := json.Marshal(map[string]any{
		"device_id": d.id, "sub": strconv.FormatInt(UserID, 10), "gen": d.gen,
		"exp": time.Now().Add(s.TokenLifetime).Unix(),
	})
	if err != nil {
		panic(err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	text := enc([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc(payload)
	return text + "." + enc(s.sign(text))
}

func (s *Server) sign(text string) []byte {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// self lets only valid device tokens through, in the order of wire.md 2. The
// server's lock is held while next runs.
func (s *Server) self(next func(http.ResponseWriter, *http.Request, *device)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		text, mac, _ := cutLast(token)
		payload, _ := base64.RawURLEncoding.DecodeString(text[strings.Index(text, ".")+1:]) //nolint:errcheck // the MAC decides
		given, _ := base64.RawURLEncoding.DecodeString(mac)                                 //nolint:errcheck // the MAC decides
		var claims struct {
			DeviceID int64 `json:"device_id"`
			Exp      int64 `json:"exp"`
		}
		if !hmac.Equal(given, s.sign(text)) || json.Unmarshal(payload, &claims) != nil || claims.Exp <= time.Now().Unix() {
			fail(w, http.StatusUnauthorized, 5018, "", nil)
			return
		}
		for _, d := range s.devices {
			if d.id == claims.DeviceID && !d.inactive {
				next(w, r, d)
				return
			}
		}
		fail(w, http.StatusForbidden, 5022, "", nil)
	}
}

func cutLast(token string) (string, string, bool) {
	i := strings.LastIndex(token, ".")
	if i < 0 {
		return "", "", false
	}
	return token[:i], token[i+1:], true
}
