package feed

import (
	"encoding/json"
	"testing"
)

// The members of the table in wire.md section 6.
func TestSignalMembers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal    Signal
		kind, ref string
	}{
		{InstallUpdated(4, 7, "aGFzaA=="), "install.updated", `{"config_id":4,"version":7,"installs_hash_b64":"aGFzaA=="}`},
		{InstallUpdated(4, 7, ""), "install.updated", `{"config_id":4,"version":7,"installs_hash_b64":null}`},
		{CertUpdated(CertRef{CertID: 9}), "cert.updated", `{"cert_id":9}`},
		{CertUpdated(CertRef{CertID: 9, Serial: "0a"}.WrappedWith("Zg==")), "cert.updated",
			`{"cert_id":9,"serial":"0a","wrap_ready":true,"wrap_alg":"x25519","device_keyfp_b64":"Zg=="}`},
		{CertUnassigned(9), "cert.unassigned", `{"cert_id":9}`},
		{CAAssigned(CARef{CAID: 3, CAName: "own", Serial: "0b"}), "ca.assigned", `{"ca_id":3,"ca_name":"own","serial":"0b"}`},
		{CAUnassigned(CARef{CAID: 3}), "ca.unassigned", `{"ca_id":3}`},
		{ConfigUpdated([]ConfigFile{{File: "application", Content: json.RawMessage(`{"verbose":"info"}`)}}, "edited", "verbose"), "config.updated",
			`{"replace":[{"file":"application","content":{"verbose":"info"}}],"reason":"edited","changed_paths":["verbose"]}`},
	} {
		if ref, err := c.signal.encode(); err != nil || ref != c.ref || c.signal.Type != c.kind {
			t.Errorf("%s %s: %v\nwant %s %s", c.signal.Type, ref, err, c.kind, c.ref)
		}
	}
	for _, bad := range []Signal{{Ref: map[string]int{}}, {Type: "x"}, {Type: "x", Ref: []int{1}}, {Type: "x", Ref: "s"}, {Type: "x", Ref: func() {}}} {
		if ref, err := bad.encode(); err == nil {
			t.Errorf("accepted %v as %s", bad, ref)
		}
	}
}
