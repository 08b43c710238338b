package identity

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// BenchmarkSession is what a session costs a request, beside the query alone.
func BenchmarkSession(b *testing.B) {
	db := dbtest.SQLite(b)
	h := build(b, db)
	pair := h.signIn(b)
	hash := seal.HashToken(strings.SplitN(pair, "=", 2)[1])
	r := request(b, pair)
	b.Run("session", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if c, err := h.Session(r); c == nil || err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("query", func(b *testing.B) {
		stmt, err := db.Reader().PrepareContext(b.Context(), sessionByHash)
		if err != nil {
			b.Fatal(err)
		}
		defer stmt.Close()
		b.ReportAllocs()
		for b.Loop() {
			var id, user, authTime, seen, expires int64
			var amr, acr, roles string
			if err := stmt.QueryRowContext(r.Context(), hash).Scan(&id, &user, &amr, &acr, &authTime, &seen, &expires, &roles); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPasswordLogin is a whole sign-in with the real hash, beside the hash
// alone.
func BenchmarkPasswordLogin(b *testing.B) {
	h := build(b, dbtest.SQLite(b))
	h.passwords.derive = argon2.IDKey
	setColumn(b, h.db, "password", "", h.ada)
	if err := h.SetPassword(b.Context(), h.ada, adaPass); err != nil {
		b.Fatal(err)
	}
	b.Run("login", func(b *testing.B) {
		for b.Loop() {
			if w := h.login(ada, adaPass); w.Code != http.StatusOK {
				b.Fatalf("%d %s", w.Code, w.Body)
			}
		}
	})
	b.Run("hash", func(b *testing.B) {
		for b.Loop() {
			argon2.IDKey([]byte(adaPass), make([]byte, argonSalt), argonTime, argonMemory, argonThreads, argonKey)
		}
	})
}
