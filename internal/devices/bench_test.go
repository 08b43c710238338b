package devices_test

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// BenchmarkAuthenticateDevice is what every poll pays, beside the bare limit of
// verifying the HS256 signature.
func BenchmarkAuthenticateDevice(b *testing.B) {
	w := newWorld(b, dbtest.SQLite(b))
	token := w.register(w.user, nil).text("session.access_token")
	_, key, err := w.svc.SigningKey(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.svc.AuthenticateDevice(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare HS256", func(b *testing.B) {
		b.ReportAllocs()
		parser := jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithValidMethods([]string{"HS256"}))
		for b.Loop() {
			if _, err := parser.ParseWithClaims(token, &jwt.RegisteredClaims{}, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	// A token that this node sees for the first time, and the rows with it.
	b.Run("first sight", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			svc, _ := w.node()
			if _, _, err := svc.SigningKey(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if _, err := svc.AuthenticateDevice(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
}
