package certs

import (
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// walker changes one certificate of two devices in every way there is.
type walker struct {
	*env
	id  int64
	key crypto.Signer // of the owner's signing request, nil: the key is made here
}

// event is one change. touches names the devices whose delivery it may change.
type event struct {
	name    string
	do      func(*walker)
	touches []int64
}

var both = []int64{device1, device2}

// start makes another certificate, assigned to device 2 from the beginning.
func start(policy string, ownCSR bool) event {
	return event{fmt.Sprintf("start %s, own request %v", policy, ownCSR), func(w *walker) {
		if w.id != 0 {
			w.call(alice, fmt.Sprintf("DELETE /me/certificates/%d", w.id), "").want(w.t, http.StatusNoContent, 0)
		}
		w.key = nil
		body := `{"action":"create","domain_name":"www.example.com","acct_id":11,"policy":"` + policy + `"}`
		if ownCSR {
			w.key = try(GenerateKey(AlgorithmECDSA))
			csr := CSR{DER: try(CreateCSR(w.key, Names{Domain: "www.example.com"}, Subject{}))}
			text := try(json.Marshal(string(csr.PEM())))
			body = `{"action":"csr","csr_pem":` + string(text) + `,"acct_id":11,"policy":"` + policy + `"}`
		}
		w.id = w.call(alice, "POST /me/certificates", body).want(w.t, http.StatusCreated, 0).record(w.t).ID
		w.assign(device2, w.id)
		w.signals(device1) // the former certificate is gone
		w.signals(device2)
	}, nil}
}

func try[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func change(body string) event {
	return event{body, func(w *walker) { w.put(w.id, body) }, both}
}

var events = []event{
	{"assign", func(w *walker) { w.assign(device1, w.id) }, []int64{device1}},
	{"unassign", func(w *walker) {
		w.call(alice, fmt.Sprintf("DELETE /me/devices/%d/certificates/%d", device1, w.id), "")
	}, nil},
	{"issue", func(w *walker) {
		if w.key == nil {
			w.issue(w.id)
			return
		}
		leaf := newCA(w.t, "CA", nil).leaf(w.t, w.key, "www.example.com")
		err := w.db.InTx(context.Background(), func(tx *sqldb.Tx) error {
			_, err := w.s.Store(context.Background(), tx, Issued{CertID: w.id, Chain: Chain{Leaf: leaf}})
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}, both},
	{"another device key", func(w *walker) {
		w.devices[device1] = newDeviceKey(w.t)
		if err := w.changeKey(device1, w.devices[device1].PublicKey().Bytes()); err != nil {
			w.t.Fatal(err)
		}
	}, []int64{device1}},
	change(`{"action":"update","policy":"HYBRID"}`),
	change(`{"action":"update","policy":"DEVICE_REQUIRED"}`),
	change(`{"action":"update","policy":"MASTER_ONLY"}`),
	change(`{"action":"update","server_decrypt_export":true}`),
	change(`{"action":"update","server_decrypt_export":false}`),
	change(`{"action":"update","policy":"MASTER_ONLY","server_decrypt_export":true}`),
	change(`{"action":"rekey","policy":"HYBRID"}`), // the key of the next issue
}

// starts lead from every state to the same few.
var starts = []event{start("HYBRID", false), start("DEVICE_REQUIRED", false), start("MASTER_ONLY", false), start("HYBRID", true)}

// state is what decides about what follows.
func (w *walker) state() string {
	if w.id == 0 {
		return "nothing"
	}
	var state string
	err := w.db.Reader().QueryRowContext(context.Background(), `SELECT c.policy || ' ' || c.next_policy || ' export ' || c.server_decrypt_export ||
		' issued ' || (m.chain_pem <> '') || ' key ' || (m.key_ciphertext IS NOT NULL) || ' server ' || (m.data_key IS NOT NULL) || ' devices ' ||
		COALESCE((SELECT group_concat(a.device_id || CASE WHEN w.cert_id IS NULL THEN '-' ELSE '+' END) FROM certificate_assignments a
			LEFT JOIN certificate_wraps w ON w.device_id = a.device_id AND w.cert_id = a.cert_id AND w.key_version = m.key_version WHERE a.cert_id = c.id), '')
		FROM certificates c JOIN certificate_materials m ON m.cert_id = c.id WHERE c.id = $1`, w.id).Scan(&state)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%s own request %v", state, w.key != nil)
}

// delivery is what the device gets: the status, and the materials.
func (w *walker) delivery(device int64) (status int, materials string) {
	answer := w.materials(device, w.id)
	return answer.Code, string(answer.body.Data)
}

// In every state and after every event: cert.updated is written to a device that
// the event concerns exactly when the device can fetch the certificate with its
// key then. An agent drops the rest of a batch when it cannot, and installs
// nothing when it is not told.
func TestSignalsExactlyWhatCanBeFetched(t *testing.T) {
	t.Parallel()
	w := &walker{env: newEnv(t, dbtest.SQLite(t))}
	to := map[string]map[string]string{} // state and event → the state that follows
	steps := 0
	for _, s := range starts {
		s.do(w)
		to[w.state()] = map[string]string{}
	}
	for {
		e, found := next(to, w.state())
		for i := 0; !found && i < len(starts); i++ {
			starts[i].do(w)
			e, found = next(to, w.state())
		}
		if !found {
			break
		}
		steps++
		before, was, had := w.state(), w.record(w.id), map[int64]string{}
		for _, device := range both {
			_, had[device] = w.delivery(device)
		}
		e.do(w)
		after, is := w.state(), w.record(w.id)
		to[before][e.name] = after
		if to[after] == nil {
			to[after] = map[string]string{}
		}
		custody := was.Policy != is.Policy || was.ServerDecryptExport != is.ServerDecryptExport
		for _, device := range both {
			status, has := w.delivery(device)
			told := slices.ContainsFunc(w.signals(device), func(s string) bool { return strings.HasPrefix(s, "cert.updated ") })
			owed := status == http.StatusOK && (custody || e.name == "issue" || has != had[device])
			why, err := w.s.Fetchable(context.Background(), w.db.Reader(), alice, device, []int64{w.id})
			if err != nil || (why[w.id] == "") != (status == http.StatusOK) {
				t.Errorf("%s: device %d gets %d, and is said to: %q, %v", after, device, status, why[w.id], err)
			}
			if told && status != http.StatusOK {
				t.Errorf("%s, then %s: device %d is told of a certificate that answers %d", before, e.name, device, status)
			}
			if owed && !told {
				t.Errorf("%s, then %s: device %d is not told of a certificate that it can fetch", before, e.name, device)
			}
			if told && !owed && !slices.Contains(e.touches, device) {
				t.Errorf("%s, then %s: device %d is told for nothing", before, e.name, device)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d states, %d steps", len(to), steps)
	if len(to) < 40 || steps < len(to)*len(events) {
		t.Errorf("only %d states in %d steps", len(to), steps)
	}
}

// next is the first event on the shortest way to one that was not tried yet.
func next(to map[string]map[string]string, from string) (event, bool) {
	type way struct {
		state string
		first *event
	}
	seen := map[string]bool{from: true}
	for queue := []way{{state: from}}; len(queue) > 0; queue = queue[1:] {
		for i := range events {
			first := queue[0].first
			if first == nil {
				first = &events[i]
			}
			state, tried := to[queue[0].state][events[i].name]
			if !tried {
				return *first, true
			}
			if !seen[state] {
				seen[state] = true
				queue = append(queue, way{state, first})
			}
		}
	}
	return event{}, false
}
