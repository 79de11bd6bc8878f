package dbtest

import (
	"database/sql"
	"testing"

	"github.com/lockmw/kit/fence"
)

// BenchmarkGuard measures a transaction with one UPDATE, without Guard and with it.
func BenchmarkGuard(b *testing.B) {
	for _, d := range databases {
		for _, with := range []struct {
			name    string
			guarded bool
		}{{"without", false}, {"with", true}} {
			b.Run(d.name+"/"+with.name, func(b *testing.B) { transactions(b, d, with.guarded) })
		}
	}
}

func transactions(b *testing.B, d database, guarded bool) {
	db := d.open(b, false)
	do(b, db, "DROP TABLE IF EXISTS lockmw_fences", d.dialect.Schema(), "DROP TABLE IF EXISTS accounts",
		"CREATE TABLE accounts (id INT PRIMARY KEY, n INT)", "INSERT INTO accounts VALUES (1, 0)")
	locks, mini := embedded(b)
	for b.Loop() {
		b.StopTimer()
		mini.FlushAll()
		lease := acquire(b, locks, "42")
		b.StartTimer()
		tx, err := db.BeginTx(b.Context(), new(sql.TxOptions))
		if err != nil {
			b.Fatal(err)
		}
		if guarded {
			if err := d.dialect.Guard(b.Context(), tx, lease); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := tx.ExecContext(b.Context(), "UPDATE accounts SET n = n + 1 WHERE id = 1"); err != nil {
			b.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

var _ fence.Tx = (*sql.Tx)(nil)
