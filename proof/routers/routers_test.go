package routers

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	os.Exit(m.Run())
}

func newSite(t *testing.T, template string) *Site {
	t.Helper()
	locks, err := lockmw.New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &Site{Locks: locks, Key: keyfunc.MustParse(template)}
}

// An answer is a status, and the code if it is a refusal.
type answer struct {
	status int
	code   string
}

func post(service http.Handler, path string) answer {
	w := httptest.NewRecorder()
	service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	var problem struct{ Code string }
	_ = json.Unmarshal(w.Body.Bytes(), &problem) // other answers are no JSON
	return answer{w.Code, problem.Code}
}

func TestLines(t *testing.T) {
	for _, l := range lines {
		try(t, place{l.router, order, l.service, path, fine, "42"})
		if l.route == "" {
			try(t, place{l.router, "{route}", l.service, path, misuse, notRun})
		} else {
			try(t, place{l.router, "{route}", l.service, path, fine, l.route})
		}
	}
}

func TestParameters(t *testing.T) {
	for router, patterns := range values {
		for pattern, want := range patterns {
			s := newSite(t, "{param."+want[0]+"}")
			at := "/p/" + strings.TrimPrefix(want[1], "/")
			if got := post(Routes[router](s, http.MethodPost, "/p/"+pattern), at); got != fine || s.lock(t) != want[1] {
				t.Errorf("%s, %s: %v under %q, want it under %q", router, pattern, got, s.lock(t), want[1])
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, p := range places {
		try(t, p)
	}
}

func try(t *testing.T, p place) {
	t.Helper()
	s := newSite(t, p.template)
	if got := post(p.service(s), p.path); got != p.want || s.lock(t) != p.under {
		t.Errorf("%s, %s: %v under %q, want %v under %q", p.name, p.template, got, s.lock(t), p.want, p.under)
	}
}

// lock returns the lock under which the handler ran, as it was before it was escaped.
func (s *Site) lock(t *testing.T) string {
	t.Helper()
	switch {
	case !s.Ran:
		return notRun
	case s.Under == "":
		return unlocked
	}
	key, err := url.PathUnescape(s.Under)
	if err != nil {
		t.Error(err)
	}
	return key
}

var code = regexp.MustCompile("`[^`]+`")

// spans returns the code in a cell of a table.
func spans(cell string) (all []string) {
	for _, span := range code.FindAllString(cell, -1) {
		all = append(all, strings.Trim(span, "`"))
	}
	return all
}

// The table of docs/middlewares.md says what these tests have seen.
func TestDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/middlewares.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("rows_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(document), "| router | the line |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	left := maps.Clone(values)
	for _, row := range rows[min(2, len(rows)):] { // behind the heads
		cells := strings.Split(row, " | ")
		router := strings.TrimPrefix(cells[0], "| ")
		delete(left, router)
		var lineCode, routes []string
		for _, l := range lines {
			if l.router == router {
				lineCode = append(lineCode, l.code...)
				routes = append(routes, l.route)
			}
		}
		for _, c := range lineCode {
			if !strings.Contains(string(source), "\t"+c+"\n") && !strings.Contains(string(source), "("+c+")\n") {
				t.Errorf("%s: %s is not what runs", router, c)
			}
		}
		if got := spans(cells[1]); !slices.Equal(got, lineCode) {
			t.Errorf("%s: the line is %q, want %q", router, got, lineCode)
		}
		if got, want := spans(cells[2]), slices.Sorted(maps.Keys(values[router])); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s: parameters are %q, want %q", router, got, want)
		}
		if got, want := strings.Join(spans(cells[3]), ""), slices.Compact(routes); len(want) != 1 || got != want[0] {
			t.Errorf("%s: {route} is %q, want %q", router, got, want)
		}
	}
	for router := range left {
		t.Errorf("the table has no row for %s", router)
	}
}
