package matrix

import (
	"context"
	"fmt"
	"testing"

	"github.com/lockmw/kit/internal/test/dbserver"
	"github.com/lockmw/kit/proof/fenced"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// besidePostgres lists how Redis forgets locks that are held, while their holders write to a PostgreSQL.
func besidePostgres() []Kind { return over("PostgreSQL", forgetHeld()) }

// inPostgres has the workers of a lane write to a PostgreSQL, in the place of the fenced store. A lane has a schema of its own there: each lane has its
// own Redis, but the names of their locks are the same.
func inPostgres(server *dbserver.Server) func(*Lane) {
	return func(l *Lane) {
		ctx := context.Background()
		if _, err := server.Open(l.tb, "").ExecContext(ctx, "CREATE SCHEMA "+l.Name); err != nil {
			l.tb.Fatal(err)
		}
		l.sql = server.Source(l.tb, "search_path="+l.Name)
		store, err := fenced.OpenDatabase(l.sql)
		if err != nil {
			l.tb.Fatal(err)
		}
		defer store.Close()
		if err := store.Create(ctx); err != nil {
			l.tb.Fatal(err)
		}
	}
}

// Check 5 of REPORT.md, with a store as a service has it: PostgreSQL, and fence.Postgres.Guard. What is stale is judged by when the holders asked for
// their locks, and not by the number that Guard compares.
func TestPostgreSQLRefusesLateWritersWhereRedisForgets(test *testing.T) {
	t := reasonsLast(test)
	server := dbserver.Postgres()
	t.Cleanup(func() { server.Stop(t.Failed()) })
	s := record.Seed(t)
	kinds := chosen(besidePostgres())
	each := times(t, 30) * record.Pick(3, 1) // a few of them alone may meet no holder who is late
	o := run(t, record.Pick(2, 6), each, s, kinds, inPostgres(server))
	lines := o.Lines()
	report(t, &o, lines)
	record.Save(t, "forgets-postgresql", lines)

	kindsSeen, injections, overlaps, least := record.Count(lines, true)
	wantKinds, wantTimes := whole(6), whole(record.Pick(1, 30))
	stale := len(history.StaleWrites(history.PerTenure(o.Holds), o.Writes))
	accepted, refused := 0, 0
	for _, w := range o.Writes {
		switch {
		case w.Accepted:
			accepted++
		case w.Highest > 0: // by Guard, in the database
			refused++
		}
	}
	record.Add(t, record.Row{
		Check: 5, Name: "Redis forgets, with PostgreSQL and Guard",
		Goal: fmt.Sprintf("≥ %s × %d: 0 stale writes accepted", record.Plural(wantKinds, "kind"), wantTimes),
		Figure: fmt.Sprintf("%s × ≥ %d, %s: %s accepted (%s accepted in all, and %s refused because a later holder had written); %s",
			record.Plural(kindsSeen, "kind"), least, record.Plural(injections, "injection"), record.Plural(stale, "stale write"),
			record.Plural(accepted, "write"), record.Thousands(refused), record.Plural(overlaps, "overlap")),
		Met:  kindsSeen >= wantKinds && least >= wantTimes && stale == 0 && refused > 0,
		Note: fmt.Sprintf("seed %d", s),
	})
}
