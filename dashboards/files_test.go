// Package dashboards_test tests the board and the alerts: what they say, that they can be
// read, and with a real Prometheus that they show and tell what happens.
package dashboards_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// A board is what the tests read of lockmw.json.
type board struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Interval                 string // the least that its steps may be
	Datasource               source
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct {
		Defaults struct {
			Unit     string
			Decimals *int
			Mappings []struct {
				Options map[string]struct{ Text string }
			}
		}
	}
	Targets []target
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                source
	Instant, Range            bool
}

type source struct{ Type, UID string }

type variable struct {
	Name, Type, Definition string
	Multi, IncludeAll      bool
	AllValue               string
	Datasource             source
	Query                  any
}

func readBoard(t *testing.T) board {
	t.Helper()
	text, err := os.ReadFile("lockmw.json")
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// The rules are what alerts.yaml has.
type rules struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

func readRules(t *testing.T) rules {
	t.Helper()
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := yaml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// all are the rules of all groups.
func (r rules) all() []rule {
	var all []rule
	for _, g := range r.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func (r rules) write(t *testing.T, path string) {
	t.Helper()
	text, err := yaml.Marshal(r)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// faster returns the rules with all their times divided, so that a test need not wait for
// minutes.
func (r rules) faster(t *testing.T, by time.Duration) rules {
	t.Helper()
	var out rules
	for _, g := range r.Groups {
		faster := group{Name: g.Name}
		for _, rule := range g.Rules {
			e := parse(t, rule.Expr)
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				switch n := n.(type) {
				case *parser.MatrixSelector:
					n.Range /= by
				case *parser.VectorSelector:
					n.OriginalOffset /= by
				}
				return nil
			})
			rule.Expr = e.String()
			if rule.For != "" {
				d, err := model.ParseDuration(rule.For)
				if err != nil {
					t.Fatal(err)
				}
				rule.For = model.Duration(time.Duration(d) / by).String()
			}
			faster.Rules = append(faster.Rules, rule)
		}
		out.Groups = append(out.Groups, faster)
	}
	return out
}

func parse(t *testing.T, expr string) parser.Expr {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return e
}

// fill puts values into a query in the place of Grafana's variables: all of everything.
func fill(query string, rateInterval, whole time.Duration) string {
	return strings.NewReplacer(
		"$__rate_interval", model.Duration(rateInterval).String(), "$__range", model.Duration(whole).String(),
		"$job", ".*", "$instance", ".*", "$name", ".*",
	).Replace(query)
}

// A view is what Grafana knows of where it shows the board.
type view struct {
	scrape time.Duration // how long a scrape comes after another
	whole  time.Duration // the time that is shown
	faster time.Duration // by what the times of panels are divided, as those of the rules are
}

// step returns how long a panel's values stand apart, where the screen is wide enough to show each scrape.
func (v view) step(t *testing.T, p panel) time.Duration {
	t.Helper()
	if p.Interval == "" {
		return v.scrape
	}
	least, err := model.ParseDuration(p.Interval)
	if err != nil {
		t.Fatalf("panel %q: %v", p.Title, err)
	}
	return max(v.scrape, time.Duration(least)/max(v.faster, 1))
}

// query returns a query of a panel as Grafana asks it. A $__rate_interval is a step and the scrape before it, and no less than four scrapes.
func (v view) query(t *testing.T, p panel, expr string) string {
	t.Helper()
	return fill(expr, max(v.step(t, p)+v.scrape, 4*v.scrape), v.whole)
}

// measured returns what a rule compares, without the comparisons: the queries that have a
// value also while all is well. Each side of "or", "and" and "unless" is one.
func measured(e parser.Expr) []string {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return measured(e.Expr)
	case *parser.BinaryExpr:
		switch {
		case e.Op.IsSetOperator():
			return append(measured(e.LHS), measured(e.RHS)...)
		case e.Op.IsComparisonOperator():
			return measured(e.LHS)
		}
	case *parser.AggregateExpr:
		if filters(e.Expr) {
			return measured(e.Expr)
		}
	}
	return []string{e.String()}
}

// filters reports whether an expression has a comparison or "or", "and" or "unless".
func filters(e parser.Expr) (found bool) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if b, ok := n.(*parser.BinaryExpr); ok {
			found = found || b.Op.IsSetOperator() || b.Op.IsComparisonOperator()
		}
		return nil
	})
	return found
}

// A query is one of the board or of an alert.
type query struct {
	of, expr string
	share    bool // of a whole, so it is never more than 1
}

// queries are all of the board and, without their comparisons, of the alerts.
func queries(t *testing.T, b board, r rules, v view) (ofBoard, ofAlerts []query) {
	t.Helper()
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			of := fmt.Sprintf("panel %q, %s", p.Title, target.RefID)
			ofBoard = append(ofBoard, query{of, v.query(t, p, target.Expr), p.FieldConfig.Defaults.Unit == "percentunit"})
		}
	}
	for _, rule := range r.all() {
		for _, expr := range measured(parse(t, rule.Expr)) {
			divides, ok := parse(t, expr).(*parser.BinaryExpr)
			ofAlerts = append(ofAlerts, query{"alert " + rule.Alert, expr, ok && divides.Op == parser.DIV})
		}
	}
	return ofBoard, ofAlerts
}
