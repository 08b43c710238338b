package apptest

import (
	"strconv"
)

// WaitingKey has an API key bring another key of a new device.
func WaitingKey(a *Attempt) {
	id := FreshPublicID()
	a.Ids["device_id"] = strconv.FormatInt(a.R.Enrol(id).ID, 10)
	registrar := a.R.Key(Permitting(Permission("ForDeviceAuthenticate", "*", "authenticate")))
	a.W.Bearer(registrar).Do("POST", "/apiv1/me/devices", map[string]any{"device_public_id": id, "dev_pk": SomePublicKey}, 200)
}

// NamedKey names somePublicKey.
func NamedKey(*Resident) any {
	return map[string]any{"device_keyfp_b64": "+JXg9p9JRv5nK/9+u0d/McJ38fgZdGEnbrkNt3SHhHY="}
}
