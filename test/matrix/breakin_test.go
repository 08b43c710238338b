package matrix_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestOddCredentials: credentials in places and forms that are not theirs, and
// several at once. A bearer decides alone, whatever cookie is with it; two of
// them decide nothing; of two cookies the first counts.
func TestOddCredentials(t *testing.T) {
	t.Parallel()
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	key, bobs, device := w.Alice.Keys["*"], w.Bob.Keys["*"], w.Alice.Device.Header.Get("Authorization")
	cookie, other := w.Alice.Header.Get("Cookie"), w.Bob.Header.Get("Cookie")
	garbage := w.Config.SessionCookie + "=0123456789012345678901234567890123456789012"
	own, me := fmt.Sprintf("/apiv1/users/%d/devices", w.Alice.UserID), "/apiv1/me/devices"
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	const a, c = "Authorization", "Cookie"
	for name, test := range map[string]struct {
		path   string
		header http.Header
		status int
		sees   *apptest.Resident
	}{
		"a key":                              {me, header(a, "Bearer "+key), 200, w.Alice},
		"a scheme in lower case":             {me, header(a, "bearer "+key), 200, w.Alice},
		"a scheme in upper case, two blanks": {me, header(a, "BEARER  "+key), 200, w.Alice},
		"a tab":                              {me, header(a, "Bearer\t"+key), 401, nil},
		"two bearers":                        {me, header(a, "Bearer "+key+", Bearer "+bobs), 401, nil},
		"two headers":                        {me, header(a, "Bearer "+key, a, "Bearer "+bobs), 401, nil},
		"the same header twice":              {me, header(a, "Bearer "+key, a, "Bearer "+key), 401, nil},
		"two headers and a session":          {me, header(a, "Basic eDp5", a, "Bearer "+key, c, cookie), 401, nil},
		"a key before a session":             {own, header(a, "Bearer "+bobs, c, cookie), 403, nil},
		"a key before a session, on me":      {me, header(a, "Bearer "+bobs, c, cookie), 200, w.Bob},
		"a dead key before a session":        {me, header(a, "Bearer "+apptest.UnknownKey, c, cookie), 401, nil},
		"a device before a session":          {me, header(a, device, c, cookie), 401, nil},
		"an empty bearer before a session":   {me, header(a, "Bearer ", c, cookie), 401, nil},
		"a bare scheme before a session":     {me, header(a, "Bearer", c, cookie), 401, nil},
		"another scheme is not looked at":    {me, header(a, "Basic eDp5", c, cookie), 200, w.Alice},
		"a key as a password":                {me, header(a, "Basic "+base64.StdEncoding.EncodeToString([]byte("x:"+key))), 401, nil},
		"a key as a name":                    {me, header(a, "Basic "+base64.StdEncoding.EncodeToString([]byte(key+":"))), 401, nil},
		"a key under another scheme":         {me, header(a, "Token "+key), 401, nil},
		"a key without a scheme":             {me, header(a, key), 401, nil},
		"a key in a header of its own":       {me, header("X-Api-Key", key, "Api-Key", key, "X-Auth-Token", key, "Proxy-Authorization", "Bearer "+key), 401, nil},
		"a key in the query":                 {me + "?access_token=" + key + "&api_key=" + key + "&token=" + key, nil, 401, nil},
		"a key in a cookie":                  {me, header(c, w.Config.SessionCookie+"="+key+"; Authorization=Bearer "+key), 401, nil},
		"a session as a bearer":              {me, header(a, "Bearer "+strings.TrimPrefix(cookie, w.Config.SessionCookie+"=")), 401, nil},
		"a session in the query":             {me + "?" + cookie, nil, 401, nil},
		"the first of two cookies":           {me, header(c, cookie+"; "+other), 200, w.Alice},
		"the first of two cookie headers":    {me, header(c, other, c, cookie), 200, w.Bob},
		"garbage before the cookie":          {me, header(c, garbage+"; "+cookie), 401, nil},
		"a cookie of another case":           {me, header(c, strings.ToUpper(w.Config.SessionCookie)+cookie[len(w.Config.SessionCookie):]), 401, nil},
		"a foreign user in the query":        {me + fmt.Sprintf("?user_id=%d&me=%d", w.Bob.UserID, w.Bob.UserID), header(c, cookie), 200, w.Alice},
		"a foreign user in headers":          {me, header(c, cookie, "X-User-Id", strconv.FormatInt(w.Bob.UserID, 10), "X-Forwarded-User", "bob@example.org"), 200, w.Alice},
	} {
		status, body := w.Raw("GET", test.path, test.header)
		seen := map[*apptest.Resident]bool{w.Alice: strings.Contains(body, w.Alice.Device.PublicID), w.Bob: strings.Contains(body, w.Bob.Device.PublicID)}
		if status != test.status || seen[w.Alice] != (test.sees == w.Alice) || seen[w.Bob] != (test.sees == w.Bob) {
			t.Errorf("%s: %d %.200s, want %d", name, status, body, test.status)
		}
	}

	// Where a session is recognised but not needed, a bearer is not looked at.
	both := &apptest.Caller{P: w.Program, Header: header(a, "Bearer "+bobs, c, cookie)}
	if body := both.Do("GET", "/auth/status", nil, 200).Body; !strings.Contains(string(body), "alice@") {
		t.Errorf("%s", body)
	}
	if body := w.Bearer(key).Do("GET", "/auth/status", nil, 200).Body; !strings.Contains(string(body), `"authenticated":false`) {
		t.Errorf("%s", body)
	}
}

// TestOddPaths: no way of writing a path leads past the check of who it belongs
// to. What a router, a proxy or a file system might take for the path of alice's
// devices is asked for by nobody, and by bob.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	own, bobs := strconv.FormatInt(w.Alice.UserID, 10), strconv.FormatInt(w.Bob.UserID, 10)
	encodedID := "%3" + own // a digit in percent encoding
	for _, template := range []string{
		"/apiv1/users/A/devices", "//apiv1/users/A/devices", "/apiv1//users/A/devices", "/apiv1/users//A/devices", "/apiv1/users/A//devices", "/apiv1/users/A/devices/",
		"/apiv1/users/A/devices//", "/apiv1/users/A/devices;x=1", "/apiv1/users/A;/devices", "/apiv1/users;/A/devices", "/apiv1/users/A/devices%00", "/apiv1/users/A/devices%20",
		"/apiv1/users/A/devices.json", "/apiv1/users/A/Devices", "/APIV1/users/A/devices", "/apiv1/Users/A/devices", "/%61piv1/users/A/devices", "/apiv1/users/A/%64evices",
		"/apiv1/users/E/devices", "/apiv1%2fusers%2fA%2fdevices", "/apiv1/users/A%2fdevices", "/apiv1/users/%2fA/devices", "/apiv1\\users\\A\\devices", "/apiv1/users/A\\devices",
		"/apiv1/users/B/../A/devices", "/apiv1/users/B/%2e%2e/A/devices", "/apiv1/users/B/..%2fA/devices", "/apiv1/users/B%2f..%2fA/devices", "/apiv1/me/../users/A/devices",
		"/apiv1/me/%2e%2e/users/A/devices", "/apiv1/me/./../users/A/devices", "/apiv1/me/..;/users/A/devices", "/apiv1/./users/A/devices", "/x/../apiv1/users/A/devices",
		"/auth/../apiv1/users/A/devices", "/health/../apiv1/users/A/devices", "/docs/../apiv1/users/A/devices", "/docs/%2e%2e/apiv1/users/A/devices", "/docs/..%2f..%2fapiv1/users/A/devices",
		"/apiv1/users/A,B/devices", "/apiv1/users/A%0aB/devices", "/apiv1/users/A%00B/devices", "/apiv1/users/A?/devices", "/apiv1/users/B/devices?user_id=A", "/apiv1/users/A/devices#", "/apiv1/users/A%23/devices",
		"/apiv1/users/~/devices", "/apiv1/users/%7e/devices", "/apiv1/users/me/devices", "/apiv1/me/~/devices", "/apiv1/users/~/../A/devices", "/apiv1/users/0A/devices", "/apiv1/users/+A/devices",
		"/apiv1/users/A/devices/by-public-id/D", "/apiv1/users/B/devices/by-public-id/D", "/apiv1/me/devices/by-public-id/D", "http://x/apiv1/users/A/devices", "http://x@y/apiv1/users/A/devices", "/apiv1/users/*/devices",
	} {
		target := strings.NewReplacer("A", own, "B", bobs, "D", w.Alice.Device.PublicID, "E", encodedID).Replace(template)
		if strings.Contains(template, "APIV1") {
			target = strings.Replace(target, own+"PIV1", "APIV1", 1)
		}
		for name, who := range map[string]*apptest.Caller{"nobody": w.Anonymous(), "bob": w.Bob.Caller, "bob's key": w.Bearer(w.Bob.Keys["*"]), "alice's device": w.Alice.Device.Caller} {
			for _, method := range []string{"GET", "HEAD", "DELETE", "POST", "OPTIONS", "TRACE", "PROPFIND", "get"} {
				status, body := w.Raw(method, target, who.Header)
				ok := status == 400 || status == 401 || status == 403 || status == 404 || status == 405 ||
					status == 501 && strings.Contains(body, "5010") || status == 307 && !strings.Contains(body, "devices")
				if status == 200 && name != "nobody" && strings.Contains(target, "/users/"+bobs+"/devices?") && (method == "GET" || method == "HEAD") {
					ok = true // bob's own
				}
				if !ok || strings.Contains(body, `"device_public_id":"`+w.Alice.Device.PublicID) || method == "TRACE" && strings.Contains(body, w.Config.SessionCookie) {
					t.Errorf("%s %s by %s: %d %.200s", method, target, name, status, body)
				}
			}
		}
	}
	w.Alice.Do("GET", "/apiv1/me/devices/by-public-id/"+w.Alice.Device.PublicID, nil, 200)
}

// TestKeysEndOnEveryNode: what one node revokes, limits or disables is so on the
// other with the next request (OWASP ASVS 8.3.2).
func TestKeysEndOnEveryNode(t *testing.T) {
	t.Parallel()
	db := apptest.Engines["postgres"](t)
	c, second := apptest.Settings(t, db), apptest.Settings(t, db)
	c.MasterKeyFile = c.Data + "/master.key"
	second.MasterKeyFile = c.MasterKeyFile
	one, other := apptest.Start(t, c, app.Options{}, nil), apptest.Start(t, second, app.Options{}, nil)
	me := one.Person("ada@example.org")
	there := func(k *apptest.APIKey) *apptest.Caller { return other.Bearer(k.Token) }
	revoked, limited, orphan := me.APIKey(apptest.Entry("devices", "*", "read")), me.APIKey(apptest.Entry("devices", "*", "read")), me.APIKey(apptest.Entry("devices", "*", "read"))
	for _, k := range []*apptest.APIKey{revoked, limited, orphan} {
		there(k).Do("GET", "/apiv1/me/devices", nil, 200)
	}
	me.Do("DELETE", revoked.Path(), nil, 204)
	there(revoked).Do("GET", "/apiv1/me/devices", nil, 401)
	me.Do("PATCH", limited.Path(), map[string]any{"permissions": []any{apptest.Entry("certificates", "*", "read")}}, 200)
	there(limited).Do("GET", "/apiv1/me/devices", nil, 403)
	users, done, err := app.Users(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := users.DisableUser(t.Context(), me.UserID); err != nil {
		t.Fatal(err)
	}
	there(orphan).Do("GET", "/apiv1/me/devices", nil, 401)
}
