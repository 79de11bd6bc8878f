package dashboards_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// promtool runs Prometheus's tool, and fails the test if that finds something.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("promtool", args...).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		t.Fatalf("%v; scripts/ensure.sh prometheus installs it", err)
	case err != nil:
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolTakesTheFiles(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "check", "config", "prometheus.yml")
	promtool(t, "test", "rules", "alerts_test.yaml")
}

func TestPromtoolTakesEveryQuery(t *testing.T) {
	b, r := readBoard(t), readRules(t)
	ofBoard, ofAlerts := queries(t, b, r, view{scrape: 15 * time.Second, whole: time.Hour})
	var all group
	for i, q := range append(ofBoard, ofAlerts...) {
		all.Rules = append(all.Rules, rule{Record: fmt.Sprintf("query:%d", i), Expr: q.expr})
	}
	all.Name = "queries"
	path := filepath.Join(t.TempDir(), "queries.yaml")
	rules{Groups: []group{all}}.write(t, path)
	promtool(t, "check", "rules", "--lint=none", path)
	t.Logf("%d queries of the board, %d of the alerts", len(ofBoard), len(ofAlerts))
}

// A misspelt label selects nothing, or everything, and no server complains.
func TestQueriesUseMetricsAndLabelsThatThereAre(t *testing.T) {
	ofBoard, _ := queries(t, readBoard(t), readRules(t), view{scrape: 15 * time.Second, whole: time.Hour})
	all := ofBoard
	for _, rule := range readRules(t).all() {
		all = append(all, query{of: "alert " + rule.Alert, expr: rule.Expr})
	}
	targetLabels := []string{"__name__", "job", "instance", "pod"}
	for _, q := range all {
		var known []string // of all metrics in the query
		e := parse(t, q.expr)
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			m, ok := selects(s.Name)
			if !ok {
				t.Errorf("%s: there is no series %s", q.of, s.Name)
			}
			known = append(known, m.labels...)
			for _, match := range s.LabelMatchers {
				if !slices.Contains(append(m.labels, targetLabels...), match.Name) {
					t.Errorf("%s: %s has no label %s", q.of, s.Name, match.Name)
				}
			}
			return nil
		})
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			if a, ok := n.(*parser.AggregateExpr); ok {
				for _, label := range a.Grouping {
					if !slices.Contains(append(known, targetLabels...), label) {
						t.Errorf("%s: no metric has the label %s", q.of, label)
					}
				}
			}
			return nil
		})
	}
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range readRules(t).all() {
		if !regexp.MustCompile(`^Lockmw[A-Z][A-Za-z]+$`).MatchString(r.Alert) || seen[r.Alert] {
			t.Errorf("%q is no name, or not the only one", r.Alert)
		}
		seen[r.Alert] = true
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if len(r.Annotations["description"]) < 100 || r.Annotations["summary"] == "" || len(r.Annotations) != 3 {
			t.Errorf("%s: annotations %q", r.Alert, r.Annotations)
		}
		if got, want := r.Annotations["runbook_url"], "https://github.com/lockmw/kit/blob/main/docs/operating.md#"+strings.ToLower(r.Alert); got != want {
			t.Errorf("%s: runbook_url %q, want %q", r.Alert, got, want)
		}
	}
}

func TestEveryPanelSaysWhatItMeans(t *testing.T) {
	b := readBoard(t)
	ids, titles := make(map[int]bool), make(map[string]string)
	here := source{"prometheus", "${datasource}"}
	for _, p := range b.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if first, ok := titles[p.Title+p.Type]; ok || p.Title == "" {
			t.Errorf("panel %d is called as %s", p.ID, first)
		}
		titles[p.Title+p.Type] = p.Title
		if len(p.Description) < 60 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource != here {
			t.Errorf("panel %q: description %q, unit %q, %d queries, data source %v", p.Title, p.Description, p.FieldConfig.Defaults.Unit, len(p.Targets), p.Datasource)
		}
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if refs[target.RefID] || target.LegendFormat == "" || target.Datasource != here || target.Instant == target.Range {
				t.Errorf("panel %q: query %+v", p.Title, target)
			}
			refs[target.RefID] = true
		}
	}
}

// Grafana's grid has 24 columns. Panels that overlap are moved, and then the board looks
// unlike what was meant.
func TestPanelsStandSideBySide(t *testing.T) {
	taken := make(map[[2]int]string)
	for _, p := range readBoard(t).Panels {
		if g := p.GridPos; g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("panel %q stands at %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("panel %q stands over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

func TestBoardHasTheVariables(t *testing.T) {
	var names []string
	b := readBoard(t)
	for _, v := range b.Templating.List {
		names = append(names, v.Name)
		if v.Type == "query" && (!v.Multi || !v.IncludeAll || v.AllValue != ".*" || v.Datasource.UID != "${datasource}" || !strings.HasPrefix(v.Definition, "label_values(lockmw_")) {
			t.Errorf("variable %+v", v)
		}
	}
	if want := []string{"datasource", "job", "instance", "name"}; !slices.Equal(names, want) {
		t.Errorf("variables %q, want %q", names, want)
	}
	if b.SchemaVersion < 39 || b.UID == "" || b.Title == "" {
		t.Errorf("schema %d, uid %q, title %q", b.SchemaVersion, b.UID, b.Title)
	}
}
