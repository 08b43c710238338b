// Package devices owns device records, how a device comes to be one of a
// user's, and the credentials it holds afterwards.
//
// # Routes
//
//	POST   /auth/device                                     device login (RFC 8628): device_start, device_poll, device_verify
//	GET    /device                                          the page that verification_uri names
//	POST   /auth/refresh                                    refresh token of a device, or session
//	POST   /apiv1/device/registration                       register with a registration code, or a refresh token, alone
//	POST   /apiv1/users/{user_id}/devices                   register by session or API key
//	GET    /apiv1/users/{user_id}/devices                   list
//	GET    /apiv1/users/{user_id}/devices/{device_id}       501/5010, as specified
//	DELETE /apiv1/users/{user_id}/devices/{device_id}
//	GET    /apiv1/users/{user_id}/devices/by-public-id/{device_public_id}
//	POST   /apiv1/users/{user_id}/devices/{device_id}/confirm-key    another key of a known device is the owner's
//	DELETE /apiv1/users/{user_id}/devices/{device_id}/confirm-key    it is not
//	POST   /apiv1/devices/self/notify                       what an agent tells about itself
//
// # Device login
//
// A login is PENDING until the signed-in user decides: APPROVED makes a
// registration code for that user, DENIED ends it. The code is single-use; it
// is kept sealed so that polling again answers the same one, until it is used
// or expires.
//
// # Keys
//
// Another key of a known device waits for the owner unless the owner has a part
// in its registration; until then it has a token family of its own and gets no
// private key (docs/decisions/0020-what-a-device-is-worth.md).
//
// # Credentials
//
// A registration begins a token family, numbered per device (session_no). Its
// refresh tokens rotate: each is good once, and again while nobody has used what
// it was answered with, because the answer may have been lost. Of the pairs that
// were given for one token the first that is used wins (see use and
// docs/decisions/0010-lost-answers.md). A token that is shown later than
// [reuseGrace] after another was used in its place was stolen or cloned, so the
// whole family ends. Access tokens are JWTs that name their family and their
// pair; they die with the family, with the device, and with the activity of its
// user.
//
// Service.AuthenticateDevice runs on every poll of every device: verified tokens
// and the state of devices are kept in memory, see recent and stateCache.
package devices
