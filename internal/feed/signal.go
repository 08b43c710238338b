package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Signal is what an emitter appends. Ref must encode to a JSON object. Make
// one with the constructors below, which know the members of wire.md section 6.
type Signal struct {
	Type string
	Ref  any
}

// maxRef bounds the JSON of a Ref in bytes; the largest is a config.updated
// with both configuration files of an agent.
const maxRef = 1 << 20

func (s Signal) encode() (string, error) {
	if s.Type == "" {
		return "", errors.New("a signal needs a type")
	}
	ref, err := json.Marshal(s.Ref)
	if err != nil {
		return "", fmt.Errorf("encode the ref of a signal %s: %w", s.Type, err)
	}
	if !bytes.HasPrefix(ref, []byte("{")) || len(ref) > maxRef {
		return "", fmt.Errorf("the ref of a signal %s must be an object of at most %d bytes", s.Type, maxRef)
	}
	return string(ref), nil
}

type installRef struct {
	ConfigID int64   `json:"config_id"`
	Version  int64   `json:"version"`
	Hash     *string `json:"installs_hash_b64"`
}

// InstallUpdated says that the install configuration has a new version; hash is
// its installs_hash, empty for none.
func InstallUpdated(configID, version int64, hash string) Signal {
	ref := installRef{ConfigID: configID, Version: version}
	if hash != "" {
		ref.Hash = &hash
	}
	return Signal{Type: "install.updated", Ref: ref}
}

// CertRef is the ref of cert.updated. Serial is absent before the first issue.
// WrapReady, WrapAlg and DeviceKeyFP belong together and are set only when a
// wrapped key is stored for the device.
type CertRef struct {
	CertID      int64  `json:"cert_id"`
	Serial      string `json:"serial,omitempty"`
	WrapReady   bool   `json:"wrap_ready,omitempty"`
	WrapAlg     string `json:"wrap_alg,omitempty"`         // "x25519"
	DeviceKeyFP string `json:"device_keyfp_b64,omitempty"` // of the key it is wrapped for
}

// CertUpdated says that an assigned certificate, its key or its policy changed.
func CertUpdated(ref CertRef) Signal { return Signal{Type: "cert.updated", Ref: ref} }

// WrappedWith returns r with the members of a stored wrap: the fingerprint of
// the device key, in base64.
func (r CertRef) WrappedWith(deviceKeyFP string) CertRef {
	r.WrapReady, r.WrapAlg, r.DeviceKeyFP = true, "x25519", deviceKeyFP
	return r
}

// CertUnassigned says that the certificate or its assignment is gone.
func CertUnassigned(certID int64) Signal {
	return Signal{Type: "cert.unassigned", Ref: CertRef{CertID: certID}}
}

// CARef is the ref of ca.assigned and ca.unassigned.
type CARef struct {
	CAID   int64  `json:"ca_id"`
	CAName string `json:"ca_name,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// CAAssigned says that the device must import the CA.
func CAAssigned(ref CARef) Signal { return Signal{Type: "ca.assigned", Ref: ref} }

// CAUnassigned says that the device must remove the CA.
func CAUnassigned(ref CARef) Signal { return Signal{Type: "ca.unassigned", Ref: ref} }

// ConfigFile is a whole configuration file of an agent: File is "application"
// or "websocket", Content a JSON object.
type ConfigFile struct {
	File    string          `json:"file"`
	Content json.RawMessage `json:"content"`
}

type configRef struct {
	Replace      []ConfigFile `json:"replace"`
	Reason       string       `json:"reason,omitempty"`
	ChangedPaths []string     `json:"changed_paths,omitempty"`
}

// ConfigUpdated replaces configuration files of the agent; reason and changed
// are for its log and may be empty.
func ConfigUpdated(files []ConfigFile, reason string, changed ...string) Signal {
	return Signal{Type: "config.updated", Ref: configRef{Replace: files, Reason: reason, ChangedPaths: changed}}
}
