package passkeys

import (
	"encoding/base64"
	"time"

	"certharbor.dev/certharbor/internal/identity"
)

// ceremonyTime is how long a browser may ask its user, and how long the
// challenge is good for.
const ceremonyTime = 5 * time.Minute

// CreationOptions are PublicKeyCredentialCreationOptionsJSON (Web Authentication
// Level 3, section 5.1.8).
//
//nolint:tagliatelle // the names of Web Authentication
type CreationOptions struct {
	RP                     relyingPartyEntity     `json:"rp"`
	User                   passkeyUser            `json:"user"`
	Challenge              string                 `json:"challenge" doc:"base64url; for one answer."`
	PubKeyCredParams       []credentialParameter  `json:"pubKeyCredParams"`
	Timeout                int64                  `json:"timeout" doc:"Milliseconds."`
	ExcludeCredentials     []credentialDescriptor `json:"excludeCredentials" doc:"The passkeys that the user has."`
	AuthenticatorSelection authenticatorSelection `json:"authenticatorSelection"`
	Attestation            string                 `json:"attestation"`
}

// RequestOptions are PublicKeyCredentialRequestOptionsJSON (Web Authentication
// Level 3, section 5.1.9).
//
//nolint:tagliatelle // the names of Web Authentication
type RequestOptions struct {
	Challenge        string                 `json:"challenge" doc:"base64url; for one answer."`
	Timeout          int64                  `json:"timeout" doc:"Milliseconds."`
	RPID             string                 `json:"rpId"`
	AllowCredentials []credentialDescriptor `json:"allowCredentials" doc:"Empty: any that the browser has."`
	UserVerification string                 `json:"userVerification"`
}

type relyingPartyEntity struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

//nolint:tagliatelle // the names of Web Authentication
type passkeyUser struct {
	ID          string `json:"id" doc:"base64url of 64 random bytes."`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
}

type credentialParameter struct {
	Type string `json:"type"`
	Alg  int64  `json:"alg" doc:"COSE number."`
}

type credentialDescriptor struct {
	Type       string   `json:"type"`
	ID         string   `json:"id" doc:"base64url."`
	Transports []string `json:"transports"`
}

//nolint:tagliatelle // the names of Web Authentication
type authenticatorSelection struct {
	ResidentKey        string `json:"residentKey"`
	RequireResidentKey bool   `json:"requireResidentKey"`
	UserVerification   string `json:"userVerification"`
}

// The words of Web Authentication: every passkey can say whose it is, every
// ceremony asks for the PIN or finger, and nobody wants to know the model.
const (
	publicKey = "public-key"
	required  = "required"
	none      = "none"
)

func (rp relyingParty) creation(user identity.User, handle []byte, challenge string, existing []passkeyRow) CreationOptions {
	o := CreationOptions{
		RP:                 relyingPartyEntity{ID: rp.id, Name: displayName},
		User:               passkeyUser{ID: encode(handle), Name: user.Email, DisplayName: user.Name},
		Challenge:          challenge,
		Timeout:            ceremonyTime.Milliseconds(),
		ExcludeCredentials: descriptors(existing),
		AuthenticatorSelection: authenticatorSelection{
			ResidentKey: required, RequireResidentKey: true, UserVerification: required,
		},
		Attestation: none,
	}
	if o.User.Name == "" {
		o.User.Name = user.Name
	}
	if o.User.DisplayName == "" {
		o.User.DisplayName = o.User.Name
	}
	for _, algorithm := range algorithms {
		o.PubKeyCredParams = append(o.PubKeyCredParams, credentialParameter{Type: publicKey, Alg: int64(algorithm)})
	}
	return o
}

func (rp relyingParty) request(challenge string, allowed []passkeyRow) RequestOptions {
	return RequestOptions{
		Challenge: challenge, Timeout: ceremonyTime.Milliseconds(), RPID: rp.id,
		AllowCredentials: descriptors(allowed), UserVerification: required,
	}
}

func descriptors(rows []passkeyRow) []credentialDescriptor {
	list := make([]credentialDescriptor, 0, len(rows))
	for _, r := range rows {
		list = append(list, credentialDescriptor{Type: publicKey, ID: encode(r.CredentialID), Transports: r.transports()})
	}
	return list
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }
