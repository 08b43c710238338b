package threats_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
)

// setupLine is what the start of the server says to its operator, on standard
// output and nowhere else.
var setupLine = regexp.MustCompile(`(?m)^There is no administrator yet.*#token=([A-Za-z0-9_-]+)$`)

// mailed goes through everything that is opened by a link or by a code of a
// mail, right and wrong, and returns these secrets.
func (v *visit) mailed(c app.Config) map[string]string {
	t := v.t
	var link []string
	apptest.Eventually(t, 2*time.Minute, "the server prints a setup link", func() bool { // right after it has logged that it serves
		link = setupLine.FindStringSubmatch(v.s.Output.String())
		return link != nil
	})
	secrets := map[string]string{link[1]: "setup token"}
	v.do("setup page", "GET", "/setup?token="+link[1], nil, 200)
	admin := map[string]any{"token": link[1], "email": "root@example.org", "password": "short"}
	v.do("refused setup", "POST", "/auth/setup", admin, 400)
	admin["password"] = apptest.Password
	v.do("setup", "POST", "/auth/setup", admin, 200)
	v.do("second setup", "POST", "/auth/setup", admin, 401)

	const email, name = "mailed@example.org", "/auth/general"
	var read []string
	code := func() string {
		var text string
		apptest.Eventually(t, 2*time.Minute, "a mail in the outbox", func() bool {
			names, _ := filepath.Glob(filepath.Join(c.Data, "outbox", "*.eml"))
			for _, one := range names {
				if !slices.Contains(read, one) {
					content, err := os.ReadFile(one)
					read, text = append(read, one), string(content)
					return err == nil
				}
			}
			return false
		})
		code := apptest.ReadLetter(t, text).Code(t)
		secrets[code] = "code of a mail"
		return code
	}
	v.do("register", "POST", name, map[string]any{"action": "register", "email": email, "password": apptest.Password}, 200)
	first := code()
	v.do("wrong activation", "POST", name, map[string]any{"action": "activate-user", "email": "other@example.org", "verify_code": first}, 400)
	v.do("activation", "POST", name, map[string]any{"action": "activate-user", "email": email, "verify_code": first}, 200)
	v.do("reset request", "POST", name, map[string]any{"action": "request-reset-password", "email": email}, 200)
	second := code()
	v.do("refused reset", "POST", name, map[string]any{"action": "reset-password", "email": email, "verify_code": second, "new_password": "short"}, 400)
	v.do("reset", "POST", name, map[string]any{"action": "reset-password", "email": email, "verify_code": second, "new_password": apptest.Password}, 200)
	v.do("second reset", "POST", name, map[string]any{"action": "reset-password", "email": email, "verify_code": second, "new_password": apptest.Password}, 400)
	return secrets
}

// searchCodes looks for what mailed returned in the log, in all answers and in
// the database. That is apart from the needles because six digits are found in
// every longer number.
func (v *visit) searchCodes(c app.Config, secrets map[string]string) {
	f := apptest.NewFinder(secrets)
	said := map[string]bool{}
	look := func(where string, text []byte) {
		f.Search(text, true, func(what string, at int) {
			if !said[where+what] {
				said[where+what] = true
				v.t.Errorf("%s holds a %s: %.200q", where, what, text[max(0, at-100):])
			}
		})
	}
	log := setupLine.ReplaceAll([]byte(v.s.Output.String()), nil)
	look("the log", apptest.Durations.ReplaceAll(log, nil))
	for name, text := range v.answers {
		look("the answer to "+name, text)
	}
	for table, cells := range apptest.Dump(v.t, c) {
		look("table "+table, cells)
	}
}
