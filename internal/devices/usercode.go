package devices

import (
	"crypto/rand"
	"math/big"
	"regexp"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
)

// userCodeLetters makes codes that are no words and hold nothing to mistake
// (RFC 8628 section 6.1): 20^8 codes, and wrong ones are counted per address.
const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"

var userCodePattern = regexp.MustCompile(`^[A-Za-z0-9]{4}-[A-Za-z0-9]{4}$`)

// newUserCode returns a code of the form XXXX-XXXX.
func newUserCode() string {
	var code strings.Builder
	for i := range 8 {
		if i == 4 {
			code.WriteByte('-')
		}
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(userCodeLetters))))
		if err != nil {
			panic(err) // crypto/rand.Reader never fails
		}
		code.WriteByte(userCodeLetters[n.Int64()])
	}
	return code.String()
}

// parseUserCode takes XXXX-XXXX of A–Z and 0–9 in any case (wire.md section 3)
// and returns it in upper case.
func parseUserCode(text string) (string, error) {
	if !userCodePattern.MatchString(text) { // before ToUpper, which makes an S of ſ
		return "", fault.Invalid("user_code", "must have the form XXXX-XXXX of letters A to Z and digits")
	}
	return strings.ToUpper(text), nil
}
