package apptest

import (
	"strconv"
)

// Openly is a certificate whose key the device gets in plain text.
func (r *Resident) Openly() string {
	r.P.T.Helper()
	certPEM, keyPEM, _ := Importable(r.P.T)
	var made struct{ ID int64 }
	r.Do("POST", "/apiv1/me/certificates", map[string]any{
		"action": "import", "cert_pem": certPEM, "private_key_pem": keyPEM, "policy": "MASTER_ONLY", "server_decrypt_export": true,
	}, 201).Data(r.P.T, &made)
	r.Do("POST", "/apiv1/me/devices/"+r.Ids["device_id"]+"/certificates", map[string]any{"cert_id": made.ID}, 204)
	return strconv.FormatInt(made.ID, 10)
}

func (w *World) ProofBody(o *Operation, body func(*Resident) any) any {
	switch {
	case body != nil:
		return body(w.Alice)
	case o.Method == "GET":
		return nil
	}
	return o.MatrixBody(w.Alice)
}
