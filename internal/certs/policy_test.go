package certs

import (
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
)

var policies = []Policy{PolicyHybrid, PolicyMasterOnly, PolicyDeviceRequired}

// TestDecide goes through every combination of the table in wire.md 7.4.
func TestDecide(t *testing.T) {
	t.Parallel()
	for _, policy := range append([]Policy{"", "OTHER"}, policies...) {
		for bits := range 1 << 4 {
			custody := Custody{
				Policy: policy, ServerDecryptExport: bits&1 > 0, Issued: bits&2 > 0, HasKey: bits&4 > 0, WrappedForDevice: bits&8 > 0,
			}
			var want Delivery
			var code fault.Code
			switch {
			case !custody.Issued:
				code = fault.CodeNotIssued
			case !custody.HasKey:
				code = fault.CodeNotFound
			case policy == PolicyMasterOnly && custody.ServerDecryptExport:
				want = DeliverPlaintext
			case (policy == PolicyHybrid || policy == PolicyDeviceRequired) && custody.WrappedForDevice:
				want = DeliverSealed
			case policy == PolicyHybrid || policy == PolicyDeviceRequired:
				code = fault.CodeWrapPending
			default:
				code = fault.CodeExportForbidden
			}
			got, err := custody.Decide()
			if got != want || (code == 0) != (err == nil) || code != 0 && !fault.Is(err, code) {
				t.Errorf("%+v: %q, %v; want %q, %d", custody, got, err, want, code)
			}
		}
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range policies {
		if got, err := ParsePolicy(string(policy)); got != policy || err != nil {
			t.Errorf("%s: %v", policy, err)
		}
	}
	if got, err := ParsePolicy(""); got != PolicyHybrid || err != nil {
		t.Errorf("empty: %s, %v", got, err)
	}
	for _, bad := range []string{"hybrid", "NONE", "HYBRID "} {
		if _, err := ParsePolicy(bad); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}

func TestKeyWithheld(t *testing.T) {
	t.Parallel()
	for policy, withheld := range map[Policy]bool{
		PolicyHybrid: false, PolicyMasterOnly: false, PolicyDeviceRequired: true, "": true, "OTHER": true,
	} {
		if got := policy.KeyWithheld(true) != ""; got != withheld {
			t.Errorf("%q: withheld %v", policy, got)
		}
		if policy.KeyWithheld(false) == "" {
			t.Errorf("%q: a key that is not there is not withheld", policy)
		}
	}
}

// TestPlanPolicyChange: after a change exactly the wraps of the new policy are
// left, and nothing is dropped before its replacement exists.
func TestPlanPolicyChange(t *testing.T) {
	t.Parallel()
	for _, from := range policies {
		for _, to := range policies {
			plan, err := PlanPolicyChange(from, to, true, from.WrapsForServer())
			if from == to {
				if plan != (PolicyChange{}) || err != nil {
					t.Errorf("%s to itself: %+v, %v", from, plan, err)
				}
				continue
			}
			if from == PolicyDeviceRequired {
				if !fault.Is(err, fault.CodeConflict) || plan != (PolicyChange{}) {
					t.Errorf("%s to %s: %+v, %v", from, to, plan, err)
				}
				continue
			}
			server := from.WrapsForServer() && !plan.DropServerWrap
			devices := (from.WrapsForDevices() || plan.WrapDevices) && !plan.DropDeviceWraps
			if err != nil || server != to.WrapsForServer() || devices != to.WrapsForDevices() || !server && !devices {
				t.Errorf("%s to %s: %+v, %v", from, to, plan, err)
			}
			if plan, err := PlanPolicyChange(from, to, false, false); plan != (PolicyChange{}) || err != nil {
				t.Errorf("%s to %s without a key: %+v, %v", from, to, plan, err)
			}
		}
	}
}

func TestStatusAt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	ms := now.UnixMilli()
	for _, test := range []struct {
		notAfter, revokedAt int64
		want                Status
	}{
		{0, 0, StatusNew}, {ms + 1, 0, StatusActive}, {ms, 0, StatusActive}, {ms - 1, 0, StatusExpired},
		{ms + 1, ms, StatusRevoked}, {ms - 1, ms - 5, StatusRevoked},
	} {
		if got := StatusAt(now, test.notAfter, test.revokedAt); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
