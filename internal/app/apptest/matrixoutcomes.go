package apptest

import (
	"encoding/base64"
	"strings"
)

// matrixBodies are good bodies that the examples do not have, because those are
// about input, not about access.
var matrixBodies = map[string]func(r *Resident) any{
	"POST /auth/general": func(*Resident) any {
		return map[string]any{"action": "request-reset-password", "email": "nobody@example.org"}
	},
	"POST /auth/step-up": func(*Resident) any { return map[string]any{"password": Password} },
	"POST /auth/refresh": func(*Resident) any { return nil },
	"POST /auth/setup": func(*Resident) any {
		return map[string]any{"token": strings.Repeat("x", 43), "email": "root@example.org", "password": Password}
	},
	"POST /auth/webauthn/login/verify":                unknownPasskey,
	"POST /auth/webauthn/step-up/verify":              unknownPasskey,
	"POST /auth/webauthn/register/verify":             unknownPasskey,
	"POST U/password":                                 func(*Resident) any { return map[string]any{"new_password": Password + "-2"} },
	"POST U/install-config-update/{device_public_id}": func(*Resident) any { return map[string]any{"after_update_script": "true"} },
}

func (o *Operation) MatrixBody(r *Resident) any {
	if body, ok := matrixBodies[o.Line()]; ok {
		return body(r)
	}
	return o.Good(r)
}

// unknownPasskey has the form of a passkey's answer, to a challenge of nobody.
func unknownPasskey(*Resident) any {
	text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return map[string]any{"id": text("none"), "rawId": text("none"), "type": "public-key", "response": map[string]any{
		"clientDataJSON":    text(`{"type":"webauthn.get","challenge":"` + text(strings.Repeat("c", 32)) + `","origin":"http://localhost:8080"}`),
		"authenticatorData": text(strings.Repeat("a", 32) + "\x05\x00\x00\x00\x00"), "signature": text("none"), "attestationObject": text("none"),
	}}
}
