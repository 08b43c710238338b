package bench

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// The same certificate read by API key and by session, from one server.
func BenchmarkAPIKey(t *testing.B) {
	folder := populate(t)
	insertCertificates(t, folder, 100)
	o := ours(t, folder)
	cookie := o.login(t)
	var key struct{ Token string }
	o.call(t, "POST", "/apiv1/me/apikeys", cookie, map[string]any{
		"name": "bench", "expires_in_seconds": 3600, "permissions": []any{
			map[string]any{"obtype": "certificates", "obid": "50", "actions": []string{"read", "issue"}},
			map[string]any{"obtype": "devices", "obid": "*", "actions": []string{"read"}},
		},
	}, &key)
	const path = "/apiv1/me/certificates/50"
	byKey, bySession := request(path, "Authorization: Bearer "+key.Token), request(path, "Cookie: "+cookie)
	used := cpuOfEach(t, o, []string{byKey, bySession}, http.StatusOK, 10_000, 6)
	report(t, "by API key / by session", used[0], used[1], 1.1)
}

// cpuOfEach is perRequest for several requests to one server, each round in the
// other order.
func cpuOfEach(t testing.TB, p *process, requests []string, status, n, rounds int) []time.Duration {
	t.Helper()
	order := make([]int, len(requests))
	for i, r := range requests {
		order[i] = i
		p.drive(t, r, n/10, status) // warm
	}
	least := make([]time.Duration, len(requests))
	for range rounds {
		for _, i := range order {
			before := p.cpu(t)
			p.drive(t, requests[i], n, status)
			if used := (p.cpu(t) - before) / time.Duration(n); least[i] == 0 || used < least[i] {
				least[i] = used
			}
		}
		slices.Reverse(order)
	}
	return least
}
