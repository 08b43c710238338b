package identity

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// phc is a password hash in the PHC string format of argon2id (RFC 9106):
// $argon2id$v=19$m=19456,t=2,p=1$<salt>$<key>.
type phc struct {
	memory  uint32 // KiB
	time    uint32 // passes
	threads uint8
	salt    []byte
	key     []byte
}

// The settings of new hashes: 19 MiB, two passes, one lane (dependencies.md).
const (
	argonMemory  = 19 * 1024
	argonTime    = 2
	argonThreads = 1
	argonSalt    = 16
	argonKey     = 32
)

var errPHC = errors.New("not an argon2id PHC string")

// newPHC has the settings of new hashes, a fresh salt and no key yet.
func newPHC() phc {
	salt := make([]byte, argonSalt)
	rand.Read(salt) //nolint:errcheck // crypto/rand.Read never returns an error, it ends the program
	return phc{memory: argonMemory, time: argonTime, threads: argonThreads, salt: salt}
}

// dummyPHC costs what a real hash costs and matches no password.
func dummyPHC() phc {
	return phc{memory: argonMemory, time: argonTime, threads: argonThreads, salt: make([]byte, argonSalt), key: make([]byte, argonKey)}
}

// String gives the PHC string.
func (p phc) String() string {
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", p.memory, p.time, p.threads,
		base64.RawStdEncoding.EncodeToString(p.salt), base64.RawStdEncoding.EncodeToString(p.key))
}

// parsePHC reads a PHC string. Settings are bounded, so that a hash from
// elsewhere cannot take the machine's memory or minutes of its time.
func parsePHC(s string) (phc, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v=19" {
		return phc{}, errPHC
	}
	settings := strings.Split(parts[3], ",")
	if len(settings) != 3 {
		return phc{}, errPHC
	}
	memory, err1 := setting(settings[0], "m=", 8, 1<<20)
	passes, err2 := setting(settings[1], "t=", 1, 64)
	threads, err3 := setting(settings[2], "p=", 1, 64)
	salt, err4 := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	key, err5 := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if errors.Join(err1, err2, err3, err4, err5) != nil || strings.ContainsAny(s, "\r\n") {
		return phc{}, errPHC
	}
	if len(salt) < 8 || len(salt) > 64 || len(key) < 16 || len(key) > 64 || memory < 8*threads {
		return phc{}, errPHC
	}
	return phc{memory: memory, time: passes, threads: uint8(threads), salt: salt, key: key}, nil
}

// setting reads a canonical decimal number after its name.
func setting(text, name string, least, most uint32) (uint32, error) {
	digits, ok := strings.CutPrefix(text, name)
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || strconv.FormatUint(n, 10) != digits || n < uint64(least) || n > uint64(most) {
		return 0, errPHC
	}
	return uint32(n), nil
}
