package certs

import (
	"errors"

	"certharbor.dev/certharbor/internal/fault"
)

// Policy is the key_dist_policy of a certificate: who can get at its private key
// (wire.md sections 5 and 7.4).
type Policy string

// The policies.
const (
	// PolicyHybrid keeps the data key wrapped for the server and for each
	// assigned device. It is the default.
	PolicyHybrid Policy = "HYBRID"
	// PolicyMasterOnly keeps it for the server alone.
	PolicyMasterOnly Policy = "MASTER_ONLY"
	// PolicyDeviceRequired keeps it for the assigned devices alone: the server
	// cannot decrypt the key.
	PolicyDeviceRequired Policy = "DEVICE_REQUIRED"
)

// ParsePolicy reads a policy; empty means the default. The error's text is public.
func ParsePolicy(text string) (Policy, error) {
	switch policy := Policy(text); policy {
	case "":
		return PolicyHybrid, nil
	case PolicyHybrid, PolicyMasterOnly, PolicyDeviceRequired:
		return policy, nil
	}
	return "", errors.New("must be HYBRID, MASTER_ONLY or DEVICE_REQUIRED")
}

// WrapsForServer tells whether a new data key is sealed for the server.
func (p Policy) WrapsForServer() bool { return p != PolicyDeviceRequired }

// WrapsForDevices tells whether a new data key is sealed to assigned devices.
func (p Policy) WrapsForDevices() bool { return p != PolicyMasterOnly }

// Delivery is the form in which a device receives a private key.
type Delivery string

// The forms.
const (
	DeliverSealed    Delivery = "aead"      // the AEAD form: sealed to the device's key
	DeliverPlaintext Delivery = "plaintext" // the plaintext form, over TLS only
)

// Custody is what the answer to a device depends on. That the certificate is
// assigned to the device is settled before.
type Custody struct {
	Policy              Policy
	ServerDecryptExport bool // the record's flag
	Issued              bool // a leaf is stored
	HasKey              bool // an encrypted private key is stored; false after `action: csr`
	WrappedForDevice    bool // a wrap for the device's present key is stored
}

// Decide gives the form of deploy-materials, as the table of wire.md 7.4 says, or
// the fault to answer with: NOT_ISSUED, not found (no stored key), WRAP_PENDING or
// EXPORT_FORBIDDEN.
func (c Custody) Decide() (Delivery, error) {
	switch {
	case !c.Issued:
		return "", fault.NotIssued()
	case !c.HasKey:
		return "", fault.NotFound("private key")
	case c.Policy == PolicyMasterOnly && c.ServerDecryptExport:
		return DeliverPlaintext, nil
	case c.Policy == PolicyHybrid || c.Policy == PolicyDeviceRequired:
		if !c.WrappedForDevice {
			return "", fault.WrapPending()
		}
		return DeliverSealed, nil
	}
	// MASTER_ONLY without the flag, and whatever is not a policy: fail closed.
	return "", fault.ExportForbidden("EXPORT_FORBIDDEN: the policy MASTER_ONLY gives the key to devices only with server_decrypt_export.")
}

// KeyWithheld says why an export by the certificate's owner leaves the private
// key out, for meta.json; empty when the export holds it (decisions.md 7.9).
// hasKey is false where the key never reached the server.
func (p Policy) KeyWithheld(hasKey bool) string {
	switch {
	case p != PolicyHybrid && p != PolicyMasterOnly:
		return "The policy DEVICE_REQUIRED seals the private key to the assigned devices; the server cannot decrypt it."
	case !hasKey:
		return "The certificate was ordered with a signing request; its private key never reached the server."
	}
	return ""
}

// PolicyChange is what a change of policy does to the wraps of the present key.
type PolicyChange struct {
	WrapDevices     bool // wrap for every assigned device that has no wrap yet, first
	DropServerWrap  bool // then forget the server's wrap
	DropDeviceWraps bool // forget the devices' wraps
}

// PlanPolicyChange says what PUT {"action":"update"} with another policy does.
// hasKey tells whether a private key is stored, hasServerWrap whether the server
// can open it. A change back from DEVICE_REQUIRED is a conflict while the present
// key has no server wrap: only a key that is made anew can have one.
func PlanPolicyChange(from, to Policy, hasKey, hasServerWrap bool) (PolicyChange, error) {
	if from == to || !hasKey {
		return PolicyChange{}, nil
	}
	if !hasServerWrap {
		return PolicyChange{}, fault.Conflict(
			"policy: the private key is sealed to devices only and cannot go back to %s; re-issue the certificate with {\"action\":\"rekey\",\"policy\":\"%s\"}.", to, to)
	}
	return PolicyChange{
		WrapDevices:     to.WrapsForDevices(),
		DropServerWrap:  !to.WrapsForServer(),
		DropDeviceWraps: !to.WrapsForDevices(),
	}, nil
}
