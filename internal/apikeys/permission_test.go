package apikeys

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

func TestPermissionEntries(t *testing.T) {
	t.Parallel()
	good := func(text string) string { return `{"obtype":"certificates","obid":"*","actions":["read"]},` + text }
	for _, test := range []struct{ entries, want string }{
		{``, "permissions: "},
		{`{"obtype":"","obid":"*","actions":["read"]}`, "permissions[0].obtype: must be one of certificates, devices, acme_accounts, cas, service_webhooks, ForInstallConfigUpdate, ForDeviceAuthenticate"},
		{good(`{"obtype":"Certificates","obid":"*","actions":["read"]}`), "permissions[1].obtype: "},
		{`{"obtype":"users","obid":"*","actions":["read"]}`, "permissions[0].obtype: "},
		{`{"obtype":"apikeys","obid":"*","actions":["write"]}`, "permissions[0].obtype: "},
		{`{"obtype":"*","obid":"*","actions":["read"]}`, "permissions[0].obtype: "},
		{`{"obtype":"acme-accounts","obid":"*","actions":["read"]}`, "permissions[0].obtype: "},
		{good(`{"obtype":"devices","obid":"*","actions":[]}`), "permissions[1].actions: must hold at least one of read, write"},
		{`{"obtype":"devices","obid":"*"}`, "permissions[0].actions: "},
		{good(`{"obtype":"devices","obid":"*","actions":["issue"]}`), "permissions[1].actions[0]: must be one of read, write for devices"},
		{`{"obtype":"certificates","obid":"1","actions":["read","*"]}`, "permissions[0].actions[1]: "},
		{`{"obtype":"certificates","obid":"1","actions":["READ"]}`, "permissions[0].actions[0]: "},
		{`{"obtype":"certificates","obid":"1","actions":["update"]}`, "permissions[0].actions[0]: "},
		{`{"obtype":"ForInstallConfigUpdate","obid":"*","actions":["write"]}`, "permissions[0].actions[0]: must be one of update for ForInstallConfigUpdate"},
		{`{"obtype":"ForDeviceAuthenticate","obid":"7","actions":["authenticate"]}`, "permissions[0].obid: must be * for ForDeviceAuthenticate"},
		{`{"obtype":"certificates","obid":"","actions":["read"]}`, "permissions[0].obid: must be * or the id"},
		{`{"obtype":"certificates","obid":"0","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"-1","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"+1","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"01","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":" 1","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"1 ","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"1_0","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"0x1","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"1e3","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"**","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"1,2","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"9223372036854775808","actions":["read"]}`, "permissions[0].obid: "},
		{`{"obtype":"certificates","obid":"٣","actions":["read"]}`, "permissions[0].obid: "},
		{strings.TrimSuffix(strings.Repeat(`{"obtype":"devices","obid":"*","actions":["read"]},`, 101), ","), "permissions: takes at most 100"},
	} {
		_, err := normalise(parse(t, test.entries))
		if f := fault.As(err); f == nil || f.Code != fault.CodeInvalid || !strings.HasPrefix(f.What, test.want) {
			t.Errorf("%.200s: %v, want %s", test.entries, err, test.want)
		}
	}
}

func TestNormalise(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ entries, want string }{
		{`{"obtype":"certificates","obid":"9223372036854775807","actions":["issue","read","issue"]}`, `{"obtype":"certificates","obid":"9223372036854775807","actions":["read","issue"]}`},
		{
			`{"obtype":"devices","obid":"2","actions":["write"]},{"obtype":"certificates","obid":"2","actions":["read"]},{"obtype":"devices","obid":"2","actions":["read"]}`,
			`{"obtype":"devices","obid":"2","actions":["read","write"]},{"obtype":"certificates","obid":"2","actions":["read"]}`,
		},
		{ // certificate-assign tells * from an id beside it
			`{"obtype":"certificates","obid":"*","actions":["read"]},{"obtype":"certificates","obid":"2","actions":["read"]}`,
			`{"obtype":"certificates","obid":"*","actions":["read"]},{"obtype":"certificates","obid":"2","actions":["read"]}`,
		},
		{`{"obtype":"ForDeviceAuthenticate","obid":"*","actions":["revoke","validate","authenticate"]}`, `{"obtype":"ForDeviceAuthenticate","obid":"*","actions":["authenticate","validate","revoke"]}`},
	} {
		given := parse(t, test.entries)
		got, err := normalise(given)
		if err != nil || !reflect.DeepEqual(got, parse(t, test.want)) {
			t.Errorf("%s: %v %v", test.entries, got, err)
		}
		if !reflect.DeepEqual(given, parse(t, test.entries)) {
			t.Errorf("%s: the input was changed", test.entries)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	const all = `{"obtype":"certificates","obid":"*","actions":["read"]}`
	for _, test := range []struct {
		held, wanted string
		want         bool
	}{
		{all, all, true},
		{all, `{"obtype":"certificates","obid":"2","actions":["read"]}`, true},
		{`{"obtype":"certificates","obid":"2","actions":["read"]}`, all, false},
		{all, `{"obtype":"certificates","obid":"2","actions":["read","issue"]}`, false},
		{all, `{"obtype":"devices","obid":"*","actions":["read"]}`, false},
		{all + `,{"obtype":"certificates","obid":"2","actions":["issue"]}`, `{"obtype":"certificates","obid":"2","actions":["read","issue"]}`, true},
		{all + `,{"obtype":"certificates","obid":"2","actions":["issue"]}`, `{"obtype":"certificates","obid":"3","actions":["issue"]}`, false},
	} {
		if got := covers(parse(t, test.held), parse(t, test.wanted)); got != test.want {
			t.Errorf("%s covers %s: %v", test.held, test.wanted, got)
		}
	}
}

func parse(t *testing.T, entries string) (permissions []Permission) {
	t.Helper()
	if err := json.Unmarshal([]byte("["+entries+"]"), &permissions); err != nil {
		t.Fatalf("%v in %s", err, entries)
	}
	return permissions
}

// What is accepted is in the catalog, is stable, and grants exactly what it says.
func FuzzPermissions(f *testing.F) {
	f.Add([]byte(readFive))
	f.Add([]byte(`[{"obtype":"devices","obid":"*","actions":["write","read","write"]},{"obtype":"devices","obid":"*","actions":["read"]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var given []Permission
		if json.Unmarshal(body, &given) != nil {
			return
		}
		stored, err := normalise(given)
		if err != nil {
			if what := fault.As(err).What; !strings.HasPrefix(what, "permissions") {
				t.Fatalf("the fault names no place: %s", what)
			}
			return
		}
		text, err := encode(stored)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(1, text)
		if err != nil || !reflect.DeepEqual(back, stored) {
			t.Fatalf("stored %v, read %v %v", stored, back, err)
		}
		if again, err := normalise(back); err != nil || !reflect.DeepEqual(again, stored) {
			t.Fatalf("%v becomes %v %v", stored, again, err)
		}
		if !covers(given, stored) || !covers(stored, given) {
			t.Fatalf("%v was given, %v is stored", given, stored)
		}
		key := &access.Caller{Kind: access.KindKey, Grants: grants(stored)}
		for _, scope := range Catalog() {
			for _, action := range scope.Actions {
				all, ids := key.All(scope.Name, action)
				wanted := covers(given, []Permission{{Obtype: scope.Name, Obid: everyObject, Actions: []string{action}}})
				if all != wanted {
					t.Fatalf("%s %s on all: %v, given %v", scope.Name, action, all, given)
				}
				for _, id := range ids {
					if id <= 0 {
						t.Fatalf("id %d is granted by %v", id, given)
					}
				}
			}
		}
	})
}

// An id has one text: the one that the API writes.
func FuzzObid(f *testing.F) {
	for _, seed := range []string{"*", "1", "01", "+1", "-1", "1 ", "9223372036854775807", "9223372036854775808", "1_000", "0x1f", "１"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, obid string) {
		stored, err := normalise([]Permission{{Obtype: "certificates", Obid: obid, Actions: []string{"read"}}})
		digits := obid != "" && obid[0] != '0' && strings.Trim(obid, "0123456789") == ""
		if err == nil && obid != everyObject && (!digits || len(obid) > 19) {
			t.Fatalf("%q is accepted", obid)
		}
		if err != nil && (obid == everyObject || digits && len(obid) < 19) {
			t.Fatalf("%q is refused: %v", obid, err)
		}
		if err != nil {
			return
		}
		all, ids := (&access.Caller{Kind: access.KindKey, Grants: grants(stored)}).All("certificates", "read")
		if all != (obid == everyObject) || !all && len(ids) != 1 {
			t.Fatalf("%q grants %v %v", obid, all, ids)
		}
	})
}
