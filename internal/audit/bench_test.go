package audit_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// BenchmarkRecord is a transaction that records one entry, beside an empty one.
func BenchmarkRecord(b *testing.B) {
	for engine, config := range map[string]func(testing.TB) sqldb.Config{"sqlite": dbtest.SQLiteConfig, "postgres": dbtest.PostgresConfig} {
		db := dbtest.Open(b, config(b))
		trail := audit.New(time.Now)
		var n atomic.Int64
		record := func(b *testing.B, user func(int64) int64) {
			b.Helper()
			err := db.InTx(b.Context(), func(tx *sqldb.Tx) error {
				if _, err := tx.ExecContext(b.Context(), "INSERT INTO settings (name, value) VALUES ($1, $2)", fmt.Sprint("n", n.Add(1)), []byte("x")); err != nil {
					return err
				}
				return trail.Record(b.Context(), tx, audit.Entry{UserID: user(n.Load()), Action: "certificate.issue", Object: "certificate 12", Detail: map[string]any{"issue_id": 12, "trigger": "renewal"}})
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		for name, user := range map[string]func(int64) int64{
			"one user": func(int64) int64 { return 1 }, "many users": func(n int64) int64 { return 1 + n%100 }, "nobody": func(int64) int64 { return 0 },
		} {
			b.Run(engine+"/"+name, func(b *testing.B) {
				defer cpu(b)()
				for b.Loop() {
					record(b, user)
				}
			})
			b.Run(engine+"/"+name+" in parallel", func(b *testing.B) {
				b.SetParallelism(8)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						record(b, user)
					}
				})
			})
		}
		b.Run(engine+"/without", func(b *testing.B) {
			defer cpu(b)()
			for b.Loop() {
				err := db.InTx(b.Context(), func(tx *sqldb.Tx) error {
					_, err := tx.ExecContext(b.Context(), "INSERT INTO settings (name, value) VALUES ($1, $2)", fmt.Sprint("n", n.Add(1)), []byte("x"))
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// cpu reports the CPU time of this process per operation: on a busy machine the
// time on the wall says little. What PostgreSQL spends is not in it.
func cpu(b *testing.B) func() {
	b.Helper()
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N)/1000, "cpu-us/op") }
}
