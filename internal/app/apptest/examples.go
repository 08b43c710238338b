package apptest

// examples are good bodies for an operation; each bad body is one of them with
// one thing wrong. An operation without a line here has the example that its
// schema gives.
var examples = map[string][]func(r *Resident) any{
	"POST /auth/general": {func(*Resident) any {
		return map[string]any{"action": "login", "email": "nobody@example.org", "password": "x"}
	}},
	"POST /auth/device": {
		func(*Resident) any {
			return map[string]any{"action": "device_start", "scopes": []any{"a"}, "interval": 5, "expires_in": 900}
		},
		func(*Resident) any { return map[string]any{"action": "device_poll", "device_code": "unknown"} },
	},
	"POST /apiv1/device/registration": {func(r *Resident) any {
		return map[string]any{"user_id": r.UserID, "device_public_id": r.Device.PublicID, "registration_code": "unknown", "dev_pk": SomePublicKey}
	}},
	"POST U/devices": {
		func(r *Resident) any {
			return map[string]any{"device_public_id": r.Device.PublicID, "registration_code": "unknown", "dev_pk": SomePublicKey}
		},
		func(r *Resident) any {
			return map[string]any{"device_public_id": r.Device.PublicID, "refresh_token": "rt_unknown", "dev_pk": SomePublicKey}
		},
	},
	"POST /apiv1/devices/self/notify": {func(*Resident) any {
		return map[string]any{"schema": "certctrl.device.notify.v1", "events": []any{map[string]any{"type": "agent_version", "agent": "cert-ctrl", "version": "1"}}}
	}},
	"POST U/acme-accounts": {AccountExample},
	"PUT U/acme-accounts/{acme_account_id}": {func(*Resident) any {
		return map[string]any{"action": "update", "name": "again"}
	}},
	"POST U/certificates": {CertificateExample},
	"PUT U/certificates/{certificate_id}": {func(*Resident) any {
		return map[string]any{"action": "update", "auto_renew": true}
	}},
	"POST U/certificates/{certificate_id}/issues": {func(*Resident) any {
		return map[string]any{"validity_seconds": 3600}
	}},
	"POST U/devices/{device_id}/certificates":  {assignmentExample},
	"POST U/devices/{device_id}/confirm-key":   {NamedKey},
	"POST U/service_webhooks":                  {WebhookExample},
	"PUT U/service_webhooks/{webhook_id}":      {WebhookExample},
	"PUT U/devices/{device_id}/install-config": {ConfigExample, CertItemExample},
	"POST U/devices/{device_id}/install-config/restore": {func(*Resident) any {
		return map[string]any{"version": 1, "change_note": "back"}
	}},
	"POST U/install-config-update/{device_public_id}": {func(*Resident) any {
		return map[string]any{"patches": []any{map[string]any{"ob_type": "cert", "ob_id": 1, "enabled": true}}}
	}},
	"POST /apiv1/admin/users": {func(*Resident) any {
		return map[string]any{"email": "invited@example.org", "name": "invited", "roles": []any{"admin"}}
	}},
	"PATCH /apiv1/admin/users/{user_id}": {func(*Resident) any {
		return map[string]any{"roles": []any{"admin"}, "reason": "for a test"}
	}},
	"POST U/names": {NameExample},
	"POST U/names/{name_id}/grants": {func(r *Resident) any {
		return map[string]any{"user": r.other(), "pattern": "www." + r.domain(), "expires": 4102444800000}
	}},
	"POST /apiv1/admin/names": {func(r *Resident) any {
		return map[string]any{"user_id": r.UserID, "name": FreshPublicID()[:8] + ".internal"}
	}},
	"PUT /apiv1/admin/names/{name_id}": {func(r *Resident) any { return map[string]any{"user_id": r.other()} }},
	"POST U/apikeys":                   {KeyExample},
	"PATCH U/apikeys/{apikey_id}": {func(*Resident) any {
		return map[string]any{"permissions": []any{Permission("devices", "*", "read")}}
	}},
	"POST U/certificate-assign": {func(r *Resident) any { return map[string]any{"device_public_id": r.Device.PublicID} }},
}

const SomePublicKey = "B6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9/AsrhtHHw="

func CertItemExample(r *Resident) any {
	return map[string]any{"installs": []any{map[string]any{
		"type": "copy", "id": "files", "ob_type": "cert", "ob_id": max(1, r.ID("certificate_id")), "ob_name": "www", "from": []any{"fullchain.pem"},
		"to": []any{"/etc/ssl/www.pem"}, "depends_on": []any{}, "tags": []any{"a"}, "enabled": true, "continue_on_error": false,
		"cmd": "", "cmd_argv": []any{}, "run_as": "", "env": map[string]any{}, "verify": map[string]any{},
	}}}
}

// Bodies are the good bodies of an operation.
func (o *Operation) Bodies(r *Resident) []any {
	var list []any
	for _, body := range examples[o.Line()] {
		list = append(list, body(r))
	}
	if len(list) == 0 && o.Body != nil {
		list = append(list, example(o.Body))
	}
	return list
}

// Good is the first good body, nil for an operation that takes none.
func (o *Operation) Good(r *Resident) any {
	if list := o.Bodies(r); len(list) > 0 {
		return list[0]
	}
	return nil
}

func NameExample(*Resident) any {
	return map[string]any{"name": "x" + FreshPublicID()[:8] + ".example.org"}
}

// other is a user who is not the resident.
func (r *Resident) other() int64 {
	if r.UserID == 1 {
		return 2
	}
	return 1
}
