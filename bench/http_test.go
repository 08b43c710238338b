package bench

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	benchEmail    = "bench@example.org"
	benchPassword = "Correct-Horse-7-Battery"
)

// populate makes a data folder with one user.
func populate(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	create := exec.Command(path, "user", "create", "--data", folder, "--email", benchEmail, "--password-stdin")
	create.Stdin = strings.NewReader(benchPassword + "\n")
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// call sends one JSON request and decodes data into v.
func (p *process) call(t testing.TB, method, path, cookie string, body, v any) http.Header {
	t.Helper()
	return p.callWith(t, method, path, "Cookie", cookie, body, v)
}

func (p *process) callWith(t testing.TB, method, path, header, credential string, body, v any) http.Header {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(method, "http://"+p.addr+path, bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(header, credential)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, response.StatusCode, received, err)
	}
	if v != nil {
		if err := json.Unmarshal(received, &struct {
			Data any `json:"data"`
		}{v}); err != nil {
			t.Fatal(err)
		}
	}
	return response.Header
}

func (p *process) login(t testing.TB) (cookie string) {
	t.Helper()
	header := p.call(t, "POST", "/auth/general", "", map[string]any{"action": "login", "email": benchEmail, "password": benchPassword}, nil)
	cookie, _, _ = strings.Cut(header.Get("Set-Cookie"), ";")
	return cookie
}

// enrol registers a device and returns its access token.
func (p *process) enrol(t testing.TB, cookie string) string {
	t.Helper()
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	p.call(t, "POST", "/auth/device", "", map[string]any{"action": "device_start"}, &flow)
	p.call(t, "POST", "/auth/device", cookie, map[string]any{"action": "device_verify", "user_code": flow.UserCode}, nil)
	var ready struct {
		RegistrationCode string `json:"registration_code"`
		UserID           int64  `json:"user_id"`
	}
	p.call(t, "POST", "/auth/device", "", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, &ready)
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var registered struct {
		Session struct {
			AccessToken string `json:"access_token"`
		} `json:"session"`
	}
	p.call(t, "POST", "/apiv1/device/registration", "", map[string]any{
		"user_id": ready.UserID, "registration_code": ready.RegistrationCode, "device_public_id": "00000000-0000-0000-0000-000000000001",
		"dev_pk": base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()),
	}, &registered)
	return registered.Session.AccessToken
}

func request(path string, headers ...string) string {
	return strings.Join(append([]string{"GET " + path + " HTTP/1.1", "Host: localhost"}, headers...), "\r\n") + "\r\n\r\n"
}

// report prints both figures and their ratio.
func report(t testing.TB, what string, ours, bare time.Duration, limit float64) {
	t.Helper()
	ratio := float64(ours) / float64(bare)
	verdict := "ok"
	if ratio > limit {
		verdict = "FALLS SHORT"
	}
	if b, ok := t.(*testing.B); ok {
		b.ReportMetric(ratio, "ratio")
	}
	fmt.Printf("%-34s ours %9s  bare %9s  ratio %5.2f  goal ≤ %g  %s\n", what, ours, bare, ratio, limit, verdict)
}

// An idle device asks for news and there is none.
func BenchmarkIdlePoll(t *testing.B) {
	folder := populate(t)
	o := ours(t, folder)
	token := o.enrol(t, o.login(t))
	b := bare(t, "jwt", "")
	bareToken, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"device_id": 1, "sub": "1", "aud": "device", "exp": time.Now().Add(time.Hour).Unix()}).SignedString(bareSecret)
	if err != nil {
		t.Fatal(err)
	}
	cpu := perRequest(t, map[*process]string{
		o: request("/apiv1/devices/self/updates?cursor=0-0&limit=10", "Authorization: Bearer "+token),
		b: request("/poll?cursor=0-0&limit=10", "Authorization: Bearer "+bareToken),
	}, http.StatusNoContent, 20_000, 5)
	report(t, "idle device poll (204)", cpu[o], cpu[b], 2)
}

// One certificate and a list of a hundred, authenticated by session.
func BenchmarkCertificates(t *testing.B) {
	folder := populate(t)
	insertCertificates(t, folder, 100)
	o := ours(t, folder)
	cookie := o.login(t)
	b := bare(t, "certificates", folder)
	one := perRequest(t, map[*process]string{
		o: request("/apiv1/me/certificates/50", "Cookie: "+cookie),
		b: request("/certificates/50", "Cookie: "+cookie),
	}, http.StatusOK, 10_000, 5)
	report(t, "one certificate by session", one[o], one[b], 2)
	list := perRequest(t, map[*process]string{
		o: request("/apiv1/me/certificates", "Cookie: "+cookie),
		b: request("/certificates", "Cookie: "+cookie),
	}, http.StatusOK, 1_000, 5)
	report(t, "list of 100 certificates", list[o], list[b], 1.5)
}

// insertCertificates makes n issued certificates of the one user: records
// through the API, and what an issue would add straight into the table.
func insertCertificates(t testing.TB, folder string, n int) {
	t.Helper()
	p := ours(t, folder)
	cookie := p.login(t)
	var account struct{ ID int64 }
	p.call(t, "POST", "/apiv1/me/acme-accounts", cookie, map[string]any{"name": "bench", "email": "", "provider": "letsencrypt"}, &account)
	for i := range n {
		p.call(t, "POST", "/apiv1/me/certificates", cookie, map[string]any{
			"action": "create", "acct_id": account.ID, "domain_name": fmt.Sprintf("host%d.example.org", i), "sans": []string{fmt.Sprintf("www.host%d.example.org", i)},
		}, nil)
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "certharbor.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(`UPDATE certificates SET verified = 1, serial_number = '04aabbccddeeff00112233445566778899aa', issuer = 'CN=R11,O=Let''s Encrypt,C=US',
		fingerprint_sha256 = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff', not_before = 1700000000000, not_after = 1800000000000,
		next_renewal_at = 1890000000000, last_issue_id = 1, last_issue_status = 'SUCCESS', last_issue_at = 1700000000000`)
	if err != nil {
		t.Fatal(err)
	}
}

// Start to first answer with a migrated database, and memory at rest.
func BenchmarkStart(t *testing.B) {
	folder := populate(t)
	if _, err := binary(); err != nil {
		t.Fatal(err)
	}
	var o, b time.Duration
	var p *process
	for range 7 {
		begin := time.Now()
		p = ours(t, folder)
		if took := time.Since(begin); o == 0 || took < o {
			o = took
		}
		resident := p.residentKiB(t)
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		begin = time.Now()
		q := bare(t, "nothing", "")
		if took := time.Since(begin); b == 0 || took < b {
			b = took
		}
		_ = q.cmd.Process.Kill()
		_ = q.cmd.Wait()
		t.Logf("resident after start: %.1f MiB", float64(resident)/1024)
	}
	report(t, "start to first answer (wall)", o, b, 8)
	p = ours(t, folder)
	p.drive(t, request("/health"), 100, http.StatusOK)
	p.settle(t)
	mib := float64(p.residentKiB(t)) / 1024
	fmt.Printf("%-34s %.1f MiB  goal ≤ 40  %s\n", "idle memory (resident)", mib, map[bool]string{true: "ok", false: "FALLS SHORT"}[mib <= 40])
}

// settle waits until the process has used no CPU time for a second.
func (p *process) settle(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		before := p.cpu(t)
		time.Sleep(time.Second)
		if p.cpu(t)-before <= 10*time.Millisecond {
			return
		}
	}
}
