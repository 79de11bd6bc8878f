package dbtest

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/fence"
)

// What docs/fences.md has an operator type does what the page says: a fence of one key goes, or all that are ahead of the clock do.
func TestTheStatementsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/fences.md")
	if err != nil {
		t.Fatal(err)
	}
	const key = "'lock:{order:42}'"
	each(t, func(t *testing.T, d database, db *sql.DB) {
		of, in := "By hand, in PostgreSQL", key
		switch d.dialect {
		case fence.MySQL:
			of = "In MySQL and MariaDB:"
		case fence.SQLite:
			in = "CAST(" + key + " AS BLOB)"
			if !strings.Contains(string(page), "in SQLite, a key is `"+in+"`") {
				t.Error("the page says nothing of SQLite's keys")
			}
		}
		lists, forgets, forgetsAhead := statementsOf(t, string(page), of)
		now := time.Now()
		fill := func() {
			do(t, db, "DELETE FROM lockmw_fences",
				fmt.Sprintf("INSERT INTO lockmw_fences (redis_key, fence) VALUES (%s, %d)", in, now.UnixMicro()),
				fmt.Sprintf("INSERT INTO lockmw_fences (redis_key, fence) VALUES (%s, %d)", strings.Replace(in, "42", "43", 1), now.Add(48*time.Hour).UnixMicro()))
		}
		fill()
		do(t, db, strings.Replace(forgets, key, in, 1))
		if n := fences(t, db); n != 1 {
			t.Errorf("%q leaves %d fences, want that of the other key", forgets, n)
		}
		if d.dialect == fence.SQLite {
			return // the page has no more of it
		}
		fill()
		keys := make(map[string]time.Duration)
		rows, err := db.QueryContext(t.Context(), lists)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var name, at string
			if err := rows.Scan(&name, &at); err != nil {
				t.Fatal(err)
			}
			day, err := time.Parse(time.DateOnly, at[:10])
			if err != nil {
				t.Errorf("%q: %v", at, err)
			}
			keys[name] = day.Sub(now).Abs()
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if off, ok := keys["lock:{order:42}"]; !ok || len(keys) != 2 || off > 48*time.Hour {
			t.Errorf("%q returns %v, want both keys and their times", lists, keys)
		}
		do(t, db, forgetsAhead)
		if n := fences(t, db); n != 1 {
			t.Errorf("%q leaves %d fences, want the one that is not ahead", forgetsAhead, n)
		}
	})
}

// statementsOf returns the three statements behind a line of the page.
func statementsOf(t *testing.T, page, line string) (lists, forgets, forgetsAhead string) {
	t.Helper()
	_, rest, _ := strings.Cut(page, line)
	_, rest, _ = strings.Cut(rest, "\n\n")
	block, _, _ := strings.Cut(rest, "\n\n")
	lines := strings.Split(block, "\n")
	if len(lines) != 3 {
		t.Fatalf("behind %q there are %d lines, want 3", line, len(lines))
	}
	for i, l := range lines {
		statement, _, ok := strings.Cut(l, ";")
		if !ok {
			t.Fatalf("%q is no statement", l)
		}
		lines[i] = strings.TrimSpace(statement)
	}
	return lines[0], lines[1], lines[2]
}

func fences(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM lockmw_fences").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
