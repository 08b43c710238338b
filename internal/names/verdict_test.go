package names

import "testing"

const alice, bob, carol = int64(1), int64(2), int64(3)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	hold := func(user int64, name string) holding {
		return holding{id: user*100 + int64(len(name)), userID: user, name: name, state: stateHeld}
	}
	lapsed, clashing := hold(bob, "example.com"), hold(bob, "example.com")
	lapsed.lapsed, clashing.state = true, stateClash
	granted := func(pattern string, ended bool) holding {
		h := hold(alice, "example.com")
		h.grants = []permit{{pattern, ended}}
		return h
	}
	open := rules{reserved: Reserve([]string{"https://certs.example.org:8443", "10.0.0.1:443"}, []string{"acme.example.net"})}
	proved := open
	proved.proved = true
	for _, tt := range []struct {
		what  string
		rules rules
		name  string
		who   asker
		held  []holding
		want  verdict
	}{
		{"nobody's", open, "www.example.com", asker{userID: bob}, nil, verdictFree},
		{"nobody's, to be proved", proved, "www.example.com", asker{userID: bob}, nil, verdictUnproved},
		{"one's own", proved, "www.example.com", asker{userID: bob}, []holding{hold(bob, "example.com")}, verdictOwn},
		{"one's own, the wildcard", proved, "*.example.com", asker{userID: bob}, []holding{hold(bob, "example.com")}, verdictOwn},
		{"another's", open, "www.example.com", asker{userID: bob}, []holding{hold(alice, "example.com")}, verdictTaken},
		{"another's, to an administrator", open, "www.example.com", asker{userID: bob, admin: true}, []holding{hold(alice, "example.com")}, verdictTaken},
		{"of a user who is gone", open, "www.example.com", asker{userID: bob}, []holding{hold(0, "example.com")}, verdictTaken},
		{"the nearest decides, for", open, "a.b.example.com", asker{userID: bob}, []holding{hold(alice, "example.com"), hold(bob, "b.example.com")}, verdictOwn},
		{"the nearest decides, against", open, "a.b.example.com", asker{userID: bob}, []holding{hold(bob, "example.com"), hold(alice, "b.example.com")}, verdictTaken},
		{"beside a part that is another's", open, "www.example.com", asker{userID: bob}, []holding{hold(alice, "b.example.com")}, verdictUnproved},
		{"above a part that is another's", open, "example.com", asker{userID: bob}, []holding{hold(alice, "b.example.com")}, verdictUnproved},
		{"beside one's own part", open, "www.example.com", asker{userID: bob}, []holding{hold(bob, "b.example.com")}, verdictFree},
		{"the record is gone for long", open, "www.example.com", asker{userID: bob}, []holding{lapsed}, verdictUnproved},
		{"the record of another is gone for long", open, "www.example.com", asker{userID: carol}, []holding{lapsed}, verdictTaken},
		{"this server's host", open, "certs.example.org", asker{userID: bob}, nil, verdictReserved},
		{"its wildcard", open, "*.example.org", asker{userID: bob}, nil, verdictReserved},
		{"beside it", open, "www.example.org", asker{userID: bob}, nil, verdictFree},
		{"this server's host, to an administrator", open, "certs.example.org", asker{userID: bob, admin: true}, nil, verdictFree},
		{"this server's host, to an administrator, though the domain is another's", open, "certs.example.org", asker{userID: carol, admin: true}, []holding{hold(bob, "example.org")}, verdictFree},
		{"this server's host, though held", open, "certs.example.org", asker{userID: bob}, []holding{hold(bob, "example.org")}, verdictReserved},
		{"this server's zone", open, "x.acme.example.net", asker{userID: bob}, nil, verdictReserved},
		{"the wildcard over its zone", open, "*.example.net", asker{userID: bob}, nil, verdictReserved},
		{"an address", open, "192.0.2.1", asker{userID: bob}, nil, verdictReserved},
		{"an address, to an administrator", open, "192.0.2.1", asker{userID: bob, admin: true}, nil, verdictFree},
		{"an address that was given", open, "192.0.2.1", asker{userID: bob}, []holding{hold(bob, "192.0.2.1")}, verdictOwn},
		{"all below a suffix", open, "*.github.io", asker{userID: bob}, nil, verdictUnproved},
		{"all below a suffix, by a claim on it", open, "*.github.io", asker{userID: bob}, []holding{hold(bob, "github.io")}, verdictOwn},
		{"granted", open, "www.example.com", asker{userID: bob}, []holding{granted("www.example.com", false)}, verdictOwn},
		{"granted, one label", open, "www.example.com", asker{userID: bob}, []holding{granted("*.example.com", false)}, verdictOwn},
		{"granted one label, asked for two", open, "a.www.example.com", asker{userID: bob}, []holding{granted("*.example.com", false)}, verdictTaken},
		{"granted one label, asked for the wildcard", open, "*.example.com", asker{userID: bob}, []holding{granted("*.example.com", false)}, verdictTaken},
		{"granted another name", open, "www.example.com", asker{userID: bob}, []holding{granted("api.example.com", false)}, verdictTaken},
		{"an ended grant, a new certificate", open, "www.example.com", asker{userID: bob}, []holding{granted("*.example.com", true)}, verdictTaken},
		{"an ended grant, a renewal", open, "www.example.com", asker{userID: bob, existing: true}, []holding{granted("*.example.com", true)}, verdictOwn},
		{"a clash, a renewal", open, "www.example.com", asker{userID: bob, existing: true}, []holding{hold(alice, "example.com"), clashing}, verdictOwn},
		{"a clash, a new certificate", open, "www.example.com", asker{userID: bob}, []holding{hold(alice, "example.com"), clashing}, verdictTaken},
		{"another's clash", open, "www.example.com", asker{userID: carol, existing: true}, []holding{hold(alice, "example.com"), clashing}, verdictTaken},
	} {
		if got := tt.rules.decide(tt.name, tt.who, tt.held); got != tt.want {
			t.Errorf("%s (%s): %d, want %d", tt.what, tt.name, got, tt.want)
		}
	}
}
