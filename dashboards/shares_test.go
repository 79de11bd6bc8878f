package dashboards_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// An expectation is a query at a time, and what it returns: values by their labels.
type expectation struct {
	expr string
	at   time.Duration
	want map[string]float64
}

// expects has promtool ask queries of series that it is given in its own notation, a value for each interval.
func expects(t *testing.T, interval time.Duration, series map[string]string, all []expectation) {
	t.Helper()
	var inputs, tests []any
	for name, values := range series {
		inputs = append(inputs, map[string]any{"series": name, "values": values})
	}
	for _, e := range all {
		samples := []any{}
		for labels, value := range e.want {
			samples = append(samples, map[string]any{"labels": labels, "value": value})
		}
		tests = append(tests, map[string]any{"expr": e.expr, "eval_time": model.Duration(e.at).String(), "exp_samples": samples})
	}
	text, err := yaml.Marshal(map[string]any{"tests": []any{
		map[string]any{"interval": model.Duration(interval).String(), "input_series": inputs, "promql_expr_test": tests},
	}})
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", path)
}

// A counter of refusals is there, and 0, before the first one, and the count of a histogram is not. So of all that happens between
// two scrapes when a process has just begun, a share must not miss in its whole what it has in its part.
func TestNoShareIsMoreThanAll(t *testing.T) {
	const of = `job="shop", instance="a", mode="exclusive", name="pay"`
	series := map[string]string{
		`lockmw_acquire_duration_seconds_count{` + of + `, outcome="acquired"}`: "_x3 1x20",
		`lockmw_acquire_duration_seconds_count{` + of + `, outcome="refused"}`:  "_x3 15x20",
		`lockmw_renewals_total{job="shop", instance="a", outcome="renewed"}`:    "0x2 1x20",
		`lockmw_renewals_total{job="shop", instance="a", outcome="failed"}`:     "0x2 4x20",
		`lockmw_off{job="shop", instance="a", name="pay"}`:                      "1x20",
	}
	for _, reason := range []string{"LOCK_BUSY", "LOCK_WAIT_TIMEOUT", "LOCK_BACKEND_UNAVAILABLE"} {
		series[`lockmw_refused_total{`+of+`, reason="`+reason+`"}`] = "0x2 5x20"
	}
	ofBoard, ofAlerts := queries(t, readBoard(t), readRules(t), view{scrape: time.Minute, whole: time.Hour})
	var all []expectation
	for _, q := range append(ofBoard, ofAlerts...) {
		if q.share {
			all = append(all, expectation{"count((" + q.expr + ") <= 1)", 5 * time.Minute, map[string]float64{"{}": 1}})
		}
	}
	if len(all) < 9 {
		t.Errorf("only %d queries are shares", len(all))
	}
	expects(t, time.Minute, series, all)
}

// A panel with bars says how often something has happened in each step. An event between any two scrapes is in one bar, and in no other.
func TestABarCountsAnEventOnce(t *testing.T) {
	for _, scrape := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute} {
		series, all := make(map[string]string), []expectation(nil)
		for _, p := range readBoard(t).Panels {
			for _, target := range p.Targets {
				if !target.Range || !strings.Contains(target.Expr, "increase(") {
					continue
				}
				shown := view{scrape: scrape, whole: time.Hour}
				query := shown.query(t, p, target.Expr)
				maps.Copy(series, events(t, query, scrape))
				bars := fmt.Sprintf("round(sum_over_time((%s)[30m:%s]))", query, model.Duration(shown.step(t, p)))
				all = append(all, expectation{bars, 40 * time.Minute, once})
			}
		}
		if len(all) < 8 {
			t.Errorf("only %d queries have bars", len(all))
		}
		expects(t, scrape+time.Millisecond, series, all) // hardly ever does a scrape come at the very moment of a step
	}
}

// once says that something has happened once for each name of events.
var once = func() map[string]float64 {
	all := make(map[string]float64)
	for i := range eventNames {
		all[fmt.Sprintf(`{name="n%d"}`, i)] = 1
	}
	return all
}()

const eventNames = 13

// events returns series that a query selects, each with an event after 20 minutes: the first one at the scrape then, and each other
// one a scrape later.
func events(t *testing.T, query string, scrape time.Duration) map[string]string {
	t.Helper()
	series := make(map[string]string)
	parser.Inspect(parse(t, query), func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		of := []string{`job="shop"`, `instance="a"`}
		for _, m := range s.LabelMatchers {
			if m.Type == labels.MatchEqual && m.Name != labels.MetricName {
				of = append(of, m.Name+`="`+m.Value+`"`)
			}
		}
		for i := range eventNames {
			name := fmt.Sprintf(`%s{%s, name="n%d"}`, s.Name, strings.Join(of, ", "), i)
			series[name] = fmt.Sprintf("0x%d 1x200", int(20*time.Minute/scrape)+i-1)
		}
		return nil
	})
	return series
}
