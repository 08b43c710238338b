package passkeys

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"

	"certharbor.dev/certharbor/internal/fault"
)

// CreatedCredential is the toJSON of the credential that navigator.credentials.create
// made (RegistrationResponseJSON of Web Authentication Level 3), and a name.
// Browsers add members; those that are not here prove nothing and are ignored.
//
//nolint:tagliatelle // the names of Web Authentication
type CreatedCredential struct {
	_        struct{}        `json:"-" additionalProperties:"true"`
	Name     string          `json:"name,omitempty" maxLength:"200" doc:"What the owner calls the passkey."`
	ID       string          `json:"id" maxLength:"1400" doc:"Id of the credential, base64url."`
	RawID    string          `json:"rawId" maxLength:"1400" doc:"The same."`
	Type     string          `json:"type" enum:"public-key"`
	Response createdResponse `json:"response"`
}

//nolint:tagliatelle // the names of Web Authentication
type createdResponse struct {
	_                 struct{} `json:"-" additionalProperties:"true"`
	ClientDataJSON    string   `json:"clientDataJSON" maxLength:"16384" doc:"What the browser says of itself, base64url."`
	AttestationObject string   `json:"attestationObject" maxLength:"65536" doc:"What the authenticator made, base64url."`
	Transports        []string `json:"transports,omitempty" maxItems:"16" doc:"How browsers reach the authenticator."`
}

// AssertedCredential is the toJSON of the credential that navigator.credentials.get gave
// (AuthenticationResponseJSON of Web Authentication Level 3).
//
//nolint:tagliatelle // the names of Web Authentication
type AssertedCredential struct {
	_        struct{}         `json:"-" additionalProperties:"true"`
	ID       string           `json:"id" maxLength:"1400" doc:"Id of the credential, base64url."`
	RawID    string           `json:"rawId" maxLength:"1400" doc:"The same."`
	Type     string           `json:"type" enum:"public-key"`
	Response assertedResponse `json:"response"`
}

//nolint:tagliatelle // the names of Web Authentication
type assertedResponse struct {
	_                 struct{} `json:"-" additionalProperties:"true"`
	ClientDataJSON    string   `json:"clientDataJSON" maxLength:"16384" doc:"What the browser says of itself, base64url."`
	AuthenticatorData string   `json:"authenticatorData" maxLength:"8192" doc:"What the authenticator says of itself, base64url."`
	Signature         string   `json:"signature" maxLength:"2048" doc:"Over both, base64url."`
	UserHandle        *string  `json:"userHandle,omitempty" nullable:"true" maxLength:"128" doc:"Whom the authenticator knows the passkey for, base64url."`
}

// decoder decodes members and remembers the first that could not be.
type decoder struct{ err error }

func (d *decoder) base64(member, text string) []byte {
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil && d.err == nil {
		d.err = fault.Invalid(member, "must be base64url")
	}
	return data
}

// parse decodes the body. Errors are 5000 and name the member.
func (r *CreatedCredential) parse() (*protocol.ParsedCredentialCreationData, error) {
	var d decoder
	raw := protocol.CredentialCreationResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{
			Credential: protocol.Credential{ID: r.ID, Type: r.Type},
			RawID:      d.base64("rawId", r.RawID),
		},
		AttestationResponse: protocol.AuthenticatorAttestationResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: d.base64("response.clientDataJSON", r.Response.ClientDataJSON)},
			AttestationObject:     d.base64("response.attestationObject", r.Response.AttestationObject),
			Transports:            cleanTransports(r.Response.Transports),
		},
	}
	if d.err != nil {
		return nil, d.err
	}
	if n := len(raw.RawID); n == 0 || n > maxID {
		return nil, fault.Invalid("rawId", "must be 1 to %d bytes", maxID)
	}
	parsed, err := raw.Parse()
	if err != nil {
		return nil, fault.Invalid("response", "is not what a browser makes of a new credential").Because(err)
	}
	return parsed, nil
}

// parse decodes the body. Errors are 5000 and name the member.
func (a *AssertedCredential) parse() (*protocol.ParsedCredentialAssertionData, error) {
	var d decoder
	raw := protocol.CredentialAssertionResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{
			Credential: protocol.Credential{ID: a.ID, Type: a.Type},
			RawID:      d.base64("rawId", a.RawID),
		},
		AssertionResponse: protocol.AuthenticatorAssertionResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: d.base64("response.clientDataJSON", a.Response.ClientDataJSON)},
			AuthenticatorData:     d.base64("response.authenticatorData", a.Response.AuthenticatorData),
			Signature:             d.base64("response.signature", a.Response.Signature),
		},
	}
	if a.Response.UserHandle != nil {
		raw.AssertionResponse.UserHandle = d.base64("response.userHandle", *a.Response.UserHandle)
	}
	if d.err != nil {
		return nil, d.err
	}
	if n := len(raw.RawID); n == 0 || n > maxID {
		return nil, fault.Invalid("rawId", "must be 1 to %d bytes", maxID)
	}
	parsed, err := raw.Parse()
	if err != nil {
		return nil, fault.Invalid("response", "is not what a browser makes of a credential").Because(err)
	}
	return parsed, nil
}

// cleanTransports keeps what may be a hint (Web Authentication Level 2, section
// 5.8.4: unknown ones are stored too), in a settled order.
func cleanTransports(hints []string) []string {
	var kept []string
	for _, hint := range hints {
		plain := !strings.ContainsFunc(hint, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
		if hint != "" && len(hint) <= maxTransport && plain {
			kept = append(kept, hint)
		}
	}
	slices.Sort(kept)
	return slices.Compact(kept)
}
