package spellings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/golden"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/routers"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	os.Exit(m.Run())
}

// A table is a part of table.md.
type table struct {
	name      string
	template  string // in which $ is the parameter, and | the place of a column's filter
	columns   []column
	spellings []spelling
}

// A spelling is a row: what a client sends, and how the row calls that.
type spelling struct {
	name string
	request
}

func tables() []table {
	return slices.Concat(paramTables(), queryTables(), jsonTables(), headerTables())
}

// A plan has the batches of all tables. Tables that ask the same of one service share a batch.
type plan struct {
	locks   *lockmw.Locker
	batches map[service]*batch
}

type service struct {
	router, pattern, template string
	spellings                 *spelling // the first of them
}

// A place is where the results of a column's handlers behind one router are.
type place struct {
	*batch
	at int // among the readers
}

// add plans a column with a filter, or without one, behind a router.
func (p *plan) add(table table, c column, router, filter string) place {
	template := strings.NewReplacer("$", c.param, "|", filter).Replace(table.template)
	asked := service{router, c.pattern, template, &table.spellings[0]}
	b := p.batches[asked]
	if b == nil {
		site := &routers.Site{Locks: p.locks, Key: keyfunc.MustParse(template)}
		b = &batch{site: site, router: router, pattern: c.pattern, spellings: table.spellings}
		p.batches[asked] = b
	}
	b.readers = append(b.readers, c.read)
	return place{b, len(b.readers) - 1}
}

func (p *plan) run() {
	var all sync.WaitGroup
	for _, b := range p.batches {
		all.Go(b.run)
	}
	all.Wait()
}

// verdicts judges what came of a column's requests behind one router.
func (p place) verdicts() []verdict {
	results := make([]result, len(p.results))
	for i, all := range p.results {
		results[i] = all[p.at]
	}
	return judge(results)
}

// A cell is in table.md. Its handlers are behind each router of its column.
type cell struct{ plain, filtered []place }

// Every cell agrees, or says who refuses the request, or which filter makes one key of the spellings, or is known.
func TestEverySpellingOfOneThingIsOneLock(t *testing.T) {
	plan := &plan{doortest.Instant(t), make(map[service]*batch)}
	planned := make(map[string][]cell)
	all := tables()
	for _, table := range all {
		for _, c := range table.columns {
			var of cell
			for _, router := range c.routers {
				of.plain = append(of.plain, plan.add(table, c, router, ""))
				of.filtered = append(of.filtered, plan.add(table, c, router, c.filter))
			}
			planned[table.name] = append(planned[table.name], of)
		}
	}
	plan.run()

	var page strings.Builder
	page.WriteString(head)
	sums := &sums{counts: make(map[verdict]int), used: make([]bool, len(exceptions))}
	for _, table := range all {
		table.write(&page, table.rows(t, planned[table.name], sums))
	}
	for i, e := range exceptions {
		if !sums.used[i] {
			t.Errorf("%s (%s) is known, and no cell shows it", e.name, e.verdict)
		}
	}
	page.WriteString(foot(sums))
	t.Log(sums)
	golden.Check(t, "table.md", page.String())
}

// rows returns the texts of a table's cells, by row and column.
func (table table) rows(t *testing.T, planned []cell, sums *sums) [][]string {
	t.Helper()
	rows := make([][]string, len(table.spellings))
	for i := range rows {
		rows[i] = make([]string, len(table.columns))
	}
	for at, c := range table.columns {
		said := make([][]verdict, len(c.routers)) // by router and row
		for j := range c.routers {
			said[j] = withFilter(planned[at].plain[j].verdicts(), planned[at].filtered[j].verdicts(), c.filter)
		}
		for i, row := range table.spellings {
			var all []verdict
			for j, router := range c.routers {
				v := said[j][i]
				if v == bare || i == 0 && v != same {
					t.Errorf("%s, %s, %s, %s: %s", table.name, c.name, router, row.name, v)
				}
				all = append(all, v)
			}
			rows[i][at] = together(c.routers, all)
			for _, why := range sums.add(t, table.name, c.name, row.name, all) {
				rows[i][at] += " *" + why + "*"
			}
		}
	}
	return rows
}

// withFilter returns the verdicts of a column. Where one object is under two locks without the filter, the filter
// is named. With it all rows must agree, those as well that agree without it.
func withFilter(plain, filtered []verdict, filter string) []verdict {
	all := slices.Clone(plain)
	for i, v := range filtered {
		switch {
		case v == two || v == shares:
			all[i] = v
		case plain[i] == two:
			all[i] = verdict(filter)
		}
	}
	return all
}

// together returns one text for the verdicts of several routers.
func together(routers []string, all []verdict) string {
	if len(slices.Compact(slices.Clone(all))) == 1 {
		return string(all[0])
	}
	var parts []string
	for i, v := range all {
		parts = append(parts, routers[i]+" "+string(v))
	}
	return strings.Join(parts, ", ")
}

// write writes a table as Markdown.
func (table table) write(page *strings.Builder, rows [][]string) {
	fmt.Fprintf(page, "\n## %s\n\nThe lock: `%s`\n\n| |", table.name, strings.ReplaceAll(table.template, "|", ""))
	for _, c := range table.columns {
		page.WriteString(" " + c.name + " |")
	}
	page.WriteString("\n|---" + strings.Repeat("|---", len(table.columns)) + "|\n")
	for i, row := range rows {
		page.WriteString("| " + table.spellings[i].name)
		for _, said := range row {
			page.WriteString(" | " + strings.ReplaceAll(said, "|", `\|`))
		}
		page.WriteString(" |\n")
	}
}
