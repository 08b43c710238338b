package certs

import (
	"archive/zip"
	"bytes"
	"fmt"
)

// zip makes the archive of wire.md section 9. The password is "" when the key is
// withheld, and with it private.key and bundle.pfx.
func (b Bundle) zip() (body []byte, password string, err error) {
	type member struct {
		name    string
		content []byte
	}
	var members []member
	if b.Key != nil {
		members = append(members, member{"private.key", KeyPEM(b.Key)})
	}
	members = append(members,
		member{"certificate.pem", b.Chain.LeafPEM()},
		member{"certificate.der", b.Chain.Leaf.Raw})
	if len(b.Chain.Issuers) > 0 {
		members = append(members, member{"chain.pem", b.Chain.IssuersPEM()})
	}
	members = append(members, member{"fullchain.pem", b.Chain.FullPEM()})
	if b.Key != nil {
		var store []byte
		if store, password, err = b.pfx(); err != nil {
			return nil, "", err
		}
		members = append(members, member{"bundle.pfx", store})
	}
	meta, err := b.meta()
	if err != nil {
		return nil, "", err
	}
	members = append(members, member{"meta.json", meta})

	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: b.Time.UTC()}
		header.SetMode(0o600) // so that unzip does not open the key to others
		writer, err := archive.CreateHeader(header)
		if err != nil {
			return nil, "", fmt.Errorf("zip %s: %w", m.name, err)
		}
		if _, err := writer.Write(m.content); err != nil {
			return nil, "", fmt.Errorf("zip %s: %w", m.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, "", fmt.Errorf("zip: %w", err)
	}
	return out.Bytes(), password, nil
}
