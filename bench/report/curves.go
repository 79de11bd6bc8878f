package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/bench/plot"
	"github.com/lockmw/kit/bench/scenario"
)

// A view is one chart of a curve.
type view struct {
	curve, what string // the curve's name, and the end of the file's
	title, x, y string
	logY        bool
	figure      func(scenario.Figures) float64
	lines       []string // figures of one library as lines of one chart. Empty: a line for each library
	figures     []func(scenario.Figures) float64
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func perSecond(f scenario.Figures) float64 { return f.PerSecond.Median }
func clientCPU(f scenario.Figures) float64 { return micros(f.ClientCPU) }
func redisCPU(f scenario.Figures) float64  { return micros(f.RedisCPU) }
func p99(f scenario.Figures) float64       { return micros(f.P99) / 1000 } // µs in a ms

func views() []view {
	var all []view
	for _, c := range []struct{ name, title, x string }{
		{scenario.Waiters, "Waiters for one key", "goroutines that wait"},
		{scenario.Keys, "Keys, drawn at random by one goroutine", "keys"},
		{scenario.Processes, "Processes of 16 goroutines on one key", "processes"},
	} {
		all = append(all,
			view{curve: c.name, what: "turns", title: c.title + ": turns", x: c.x, y: "turns a second", figure: perSecond},
			view{curve: c.name, what: "client-cpu", title: c.title + ": client CPU", x: c.x, y: "µs per turn", figure: clientCPU},
			view{curve: c.name, what: "redis-cpu", title: c.title + ": Redis CPU", x: c.x, y: "µs per turn", figure: redisCPU},
		)
		if c.name != scenario.Keys {
			all = append(all, view{curve: c.name, what: "p99", title: c.title + ": p99 wait", x: c.x, y: "ms", logY: true, figure: p99})
		}
	}
	return append(all, view{
		curve: scenario.Leases, what: "cpu", title: "Held leases: CPU", x: "leases", y: "% of a core", logY: true,
		lines: []string{"client", "Redis"},
		figures: []func(scenario.Figures) float64{
			func(f scenario.Figures) float64 { return 100 * f.ClientLoad }, // per cent
			func(f scenario.Figures) float64 { return 100 * f.RedisLoad },  // per cent
		},
	})
}

// A drawing is a chart and the name of its file.
type drawing struct {
	file, curve string
	chart       plot.Chart
}

// charts returns the charts of all curves that were measured.
func charts(rows []scenario.Row) []drawing {
	var all []drawing
	for _, v := range views() {
		c := plot.Chart{Title: v.title, X: v.x, Y: v.y, LogY: v.logY, Series: v.series(rows)}
		if len(c.Series) > 0 {
			name := strings.ReplaceAll(v.curve, " ", "-") + "-" + v.what + ".svg"
			all = append(all, drawing{file: name, curve: v.curve, chart: c})
		}
	}
	return all
}

func (v view) series(rows []scenario.Row) []plot.Series {
	var list []plot.Series
	add := func(name string, x, y float64) {
		i := slices.IndexFunc(list, func(s plot.Series) bool { return s.Name == name })
		if i < 0 {
			i = len(list)
			list = append(list, plot.Series{Name: name})
		}
		list[i].X, list[i].Y = append(list[i].X, x), append(list[i].Y, y)
	}
	for _, row := range rows {
		if row.Scenario.Curve != v.curve || row.Figures.Rounds == 0 {
			continue
		}
		if v.lines == nil {
			add(row.Library, row.Scenario.X, v.figure(row.Figures))
		}
		for i, name := range v.lines {
			add(name, row.Scenario.X, v.figures[i](row.Figures))
		}
	}
	return list
}

// curves shows the charts, and the figures they are drawn from.
func (r Report) curves(b *bytes.Buffer) {
	last := ""
	for _, d := range charts(r.Rows) {
		if d.curve != last {
			last = d.curve
			fmt.Fprintf(b, "## Cost against %s\n\n", last)
			r.points(b, last)
		}
		fmt.Fprintf(b, "![%s](%s)\n\n", d.chart.Title, d.file)
	}
}

func (r Report) points(b *bytes.Buffer, curve string) {
	if curve == scenario.Leases {
		b.WriteString("The window has one renewal of each lease. Where there are few, their bytes are those of the connection for renewals.\n\n")
		b.WriteString("| leases | TTL | client CPU, of a core | Redis CPU, of a core | goroutines | bytes a lease |\n|---|---|---|---|---|---|\n")
	} else {
		fmt.Fprintf(b, "| %s | | turns/s | spread | p50 wait | p99 wait | max wait | commands | calls | client CPU | Redis CPU |\n|---|---|---|---|---|---|---|---|---|---|---|\n", curve)
	}
	for _, row := range r.Rows {
		f, x := row.Figures, number(row.Scenario.X)
		switch {
		case row.Scenario.Curve != curve || f.Rounds == 0:
		case curve == scenario.Leases:
			fmt.Fprintf(b, "| %s | %v | %.2f %% | %.2f %% | %.0f | %s |\n", x, row.Scenario.Spec.TTL,
				100*f.ClientLoad, 100*f.RedisLoad, f.Goroutines, number(f.Heap/row.Scenario.X)) // per cent
		default:
			fmt.Fprintf(b, "| %s | %s | %s | %s–%s | %s | %s | %s | %.2f | %.2f | %s | %s |\n", x, row.Library,
				number(f.PerSecond.Median), number(f.PerSecond.Least), number(f.PerSecond.Most),
				duration(f.P50), duration(f.P99), duration(f.Max), f.Commands, f.Calls, duration(f.ClientCPU), duration(f.RedisCPU))
		}
	}
	b.WriteString("\n")
}
