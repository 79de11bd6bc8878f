package dbtest

import (
	"database/sql"
	"fmt"
	"math"
	"os"
	"slices"
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
		good, ahead := now.UnixMicro(), now.Add(48*time.Hour).UnixMicro()
		fill := func() {
			do(t, db, "DELETE FROM lockmw_fences",
				fmt.Sprintf("INSERT INTO lockmw_fences (redis_key, fence) VALUES (%s, %d)", in, good),
				fmt.Sprintf("INSERT INTO lockmw_fences (redis_key, fence) VALUES (%s, %d)", strings.Replace(in, "42", "43", 1), ahead))
		}
		fill()
		do(t, db, strings.Replace(forgets, key, in, 1))
		if left := fences(t, db); !slices.Equal(left, []int64{ahead}) {
			t.Errorf("%q leaves the fences %v, want that of the other key, %d", forgets, left, ahead)
		}
		if d.dialect == fence.SQLite {
			return // the page has no more of it
		}
		fill()
		days := make(map[string]float64) // from now; a time zone is less than one
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
			date, _, _ := strings.Cut(strings.Replace(at, "T", " ", 1), " ")
			day, err := time.Parse(time.DateOnly, date)
			if err != nil {
				t.Errorf("%q: %v", at, err)
			}
			days[name] = day.Sub(now).Hours() / 24
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		is, ok := days["lock:{order:42}"]
		if then := days["lock:{order:43}"]; !ok || len(days) != 2 || math.Abs(is) > 2 || math.Round(then-is) != 2 {
			t.Errorf("%q returns %v, in days from now, want both keys and their times", lists, days)
		}
		do(t, db, forgetsAhead)
		if left := fences(t, db); !slices.Equal(left, []int64{good}) {
			t.Errorf("%q leaves the fences %v, want the one that is not ahead, %d", forgetsAhead, left, good)
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

// fences returns those that the table has.
func fences(t *testing.T, db *sql.DB) (left []int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT fence FROM lockmw_fences")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var fence int64
		if err := rows.Scan(&fence); err != nil {
			t.Fatal(err)
		}
		left = append(left, fence)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return left
}
