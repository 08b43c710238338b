package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"
)

const loginBody = `{"action":"login","email":"` + benchEmail + `","password":"` + benchPassword + `"}`

// bareHash derives what a password is stored as, and nothing else.
func bareHash(w http.ResponseWriter, _ *http.Request) {
	key := argon2.IDKey([]byte(benchPassword), []byte("0123456789abcdef"), 2, 19*1024, 1, 32)
	fmt.Fprintf(w, "%x", key)
}

// A sign-in with a password beside the hash alone.
func BenchmarkLogin(t *testing.B) {
	o := ours(t, populate(t))
	b := bare(t, "hash", "")
	login := "POST /auth/general HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(loginBody), loginBody)
	cpu := perRequest(t, map[*process]string{o: login, b: request("/hash")}, http.StatusOK, 60, 6)
	report(t, "password login / argon2id", cpu[o], cpu[b], 1.15)
}

// Authenticated reads while 200 sign-ins a second arrive, beside the same reads
// in peace. Each round measures both.
func BenchmarkLoginFlood(t *testing.B) {
	folder := populate(t)
	insertCertificates(t, folder, 100)
	o := ours(t, folder)
	read := request("/apiv1/me/certificates/50", "Cookie: "+o.login(t))
	o.drive(t, read, 2000, http.StatusOK) // warm
	var peace, flood float64
	var answers sync.Map
	for range 3 {
		peace = max(peace, o.readRate(t, read, 3*time.Second))
		stop := o.flood(200, &answers)
		time.Sleep(2 * time.Second) // until the queue is full
		flood = max(flood, o.readRate(t, read, 3*time.Second))
		stop()
	}
	verdict := "ok"
	if flood < peace/2 {
		verdict = "FALLS SHORT"
	}
	t.ReportMetric(flood/peace, "ratio")
	fmt.Printf("%-34s flood %7.0f/s peace %7.0f/s ratio %5.2f  goal ≥ 0.5  %s\n", "reads beside 200 logins/s", flood, peace, flood/peace, verdict)
	answers.Range(func(status, n any) bool {
		fmt.Printf("    logins answered %v: %d\n", status, n.(*atomic.Int64).Load())
		return true
	})
}

// readRate is how many reads a second four connections get.
func (p *process) readRate(t testing.TB, request string, length time.Duration) float64 {
	t.Helper()
	var done atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for range 4 {
		group.Go(func() {
			for time.Since(start) < length {
				p.drive(t, request, 50, http.StatusOK)
				done.Add(50)
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// flood lets perSecond sign-ins arrive, whatever becomes of the earlier ones,
// until the returned function is called. It counts the answers by status.
func (p *process) flood(perSecond int, answers *sync.Map) (stop func()) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	ended := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				group.Go(func() {
					response, err := client.Post("http://"+p.addr+"/auth/general", "application/json", strings.NewReader(loginBody))
					status := "failed"
					if err == nil {
						_, _ = io.Copy(&bytes.Buffer{}, response.Body)
						_ = response.Body.Close()
						status = response.Status
					}
					n, _ := answers.LoadOrStore(status, new(atomic.Int64))
					n.(*atomic.Int64).Add(1)
				})
			}
		}
	})
	return func() {
		ticker.Stop()
		close(ended)
		group.Wait()
		client.CloseIdleConnections()
	}
}
