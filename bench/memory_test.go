package bench

import (
	"bufio"
	"crypto/ecdh"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	slowBodies, idleConnections, largePages, longPolls = 2000, 2000, 1000, 10_000

	attackLimit, restLimit = 200.0, 60.0 // MiB
)

// Everything that a stranger and a user can make the server hold at once: bodies
// that never end, connections that say nothing, the largest pages, long polls.
// The client opens 15,000 connections from several addresses of loopback.
func BenchmarkMemoryUnderAttack(t *testing.B) {
	folder := populate(t)
	insertCertificates(t, folder, 100)
	lengthenChains(t, folder)
	p := ours(t, folder)
	cookie := p.login(t)
	tokens := p.enrolMany(t, cookie, 50)
	p.settle(t)
	before := float64(p.residentKiB(t)) / 1024

	a := attack{p: p, end: make(chan struct{})}
	for i := range slowBodies { // one byte short of 16 KiB
		a.open(i, "POST /auth/general HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 16384\r\n\r\n"+strings.Repeat(" ", 16383), false)
	}
	for i := range idleConnections {
		a.open(i, request("/health"), true)
	}
	for i := range longPolls {
		a.open(i, request("/apiv1/devices/self/updates?cursor=0-0&wait=20", "Authorization: Bearer "+tokens[i%len(tokens)]), false)
	}
	for i := range largePages {
		a.open(i, request("/apiv1/me/certificates?detail=most&limit=1000", "Cookie: "+cookie), false)
	}
	served, refused := a.wait(25 * time.Second)
	peak := p.statusKiB(t, "VmHWM:") / 1024
	close(a.end)
	a.group.Wait()
	begin := time.Now()
	after := peak
	for ; time.Since(begin) < time.Minute && after >= restLimit; time.Sleep(time.Second) {
		after = float64(p.residentKiB(t)) / 1024
	}
	verdict := map[bool]string{true: "ok", false: "FALLS SHORT"}
	fmt.Printf("%-34s %.1f MiB before, peak %.1f MiB  goal ≤ %g  %s\n", "memory under attack (resident)", before, peak, attackLimit, verdict[peak <= attackLimit])
	fmt.Printf("%-34s %.1f MiB after %.0f s  goal < %g in 60 s  %s\n", "", after, time.Since(begin).Seconds(), restLimit, verdict[after < restLimit])
	fmt.Printf("%-34s %d answered, %d refused or closed\n", "", served, refused)
	t.ReportMetric(peak, "peak-MiB")
	if response := p.call(t, "GET", "/apiv1/me/certificates?limit=1", cookie, nil, nil); response == nil {
		t.Error("the server is not well after it")
	}
}

// attack is many connections at once.
type attack struct {
	p     *process
	end   chan struct{}
	group sync.WaitGroup

	mu              sync.Mutex
	served, refused int
}

// open opens a connection from one of 40 addresses, sends the text and keeps what
// comes; keep says that it rests open after its answer.
func (a *attack) open(i int, text string, keep bool) {
	a.group.Go(func() {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%40))}, Timeout: 20 * time.Second}
		conn, err := dialer.Dial("tcp", a.p.addr)
		if err != nil {
			a.count(false)
			return
		}
		defer conn.Close()
		go func() {
			<-a.end
			_ = conn.SetDeadline(time.Now())
		}()
		_ = conn.SetDeadline(time.Now().Add(40 * time.Second))
		if _, err := io.WriteString(conn, text); err != nil {
			a.count(false)
			return
		}
		reader := bufio.NewReaderSize(conn, 256)
		line, err := reader.ReadString('\n')
		a.count(err == nil && strings.HasPrefix(line, "HTTP/1.1 2"))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, reader)
		if keep {
			<-a.end
		}
	})
}

func (a *attack) count(served bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if served {
		a.served++
	} else {
		a.refused++
	}
}

// wait lets the attack go on for so long, or until all is over.
func (a *attack) wait(most time.Duration) (served, refused int) {
	for begin := time.Now(); time.Since(begin) < most; time.Sleep(100 * time.Millisecond) {
		a.mu.Lock()
		served, refused = a.served, a.refused
		a.mu.Unlock()
		if served+refused == slowBodies+idleConnections+largePages+longPolls {
			break
		}
	}
	return served, refused
}

// lengthenChains makes every page of certificates as large as pages are.
func lengthenChains(t testing.TB, folder string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "certharbor.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE certificate_materials SET chain_pem = $1`, strings.Repeat("certificate chain\n", 64<<10/18)); err != nil {
		t.Fatal(err)
	}
}

// enrolMany registers devices by an API key and returns their access tokens.
func (p *process) enrolMany(t testing.TB, cookie string, n int) (tokens []string) {
	t.Helper()
	var key struct{ Token string }
	p.call(t, "POST", "/apiv1/me/apikeys", cookie, map[string]any{
		"name": "enrol", "expires_in_seconds": 3600,
		"permissions": []map[string]any{{"obtype": "ForDeviceAuthenticate", "obid": "*", "actions": []string{"authenticate"}}},
	}, &key)
	for i := range n {
		public, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		var registered struct {
			Session struct {
				AccessToken string `json:"access_token"`
			}
		}
		p.callWith(t, "POST", "/apiv1/me/devices", "Authorization", "Bearer "+key.Token, map[string]any{
			"device_public_id": fmt.Sprintf("00000000-0000-0000-0000-%012x", i+100), "dev_pk": base64.StdEncoding.EncodeToString(public.PublicKey().Bytes()),
		}, &registered)
		tokens = append(tokens, registered.Session.AccessToken)
	}
	return tokens
}

// statusKiB is a line of the process's status in KiB.
func (p *process) statusKiB(t testing.TB, name string) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatal("no " + name)
	return 0
}
