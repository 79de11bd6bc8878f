package urls

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/failtest"
	"github.com/lockmw/kit/keyfunc"
)

// A bent request shows key functions other values than handlers see.
type bent struct {
	keyfunc.Request
	r     *http.Request
	param func(b bent, name string) (string, bool)
	query func(b bent, name string) (string, bool)
}

func (b bent) Param(name string) (string, bool) {
	if b.param == nil {
		return b.Request.Param(name)
	}
	return b.param(b, name)
}

func (b bent) Query(name string) (string, bool) {
	if b.query == nil {
		return b.Request.Query(name)
	}
	return b.query(b, name)
}

// bend breaks a door by what its key functions see.
func bend(how bent) func(*door) {
	return func(d *door) {
		d.shows = func(r *http.Request, view keyfunc.Request) keyfunc.Request {
			how.Request, how.r = view, r
			return how
		}
	}
}

func asWritten(b bent, _ string) (string, bool) {
	path := b.r.URL.EscapedPath()
	return path[strings.LastIndexByte(path, '/')+1:], true
}

func decodedTwice(b bent, name string) (string, bool) {
	again, err := url.PathUnescape(b.r.PathValue(name)) // the door itself refuses such values
	return again, err == nil
}

func lastOfSeveral(b bent, name string) (string, bool) {
	values := b.r.URL.Query()[name]
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}

func malformed(b bent, name string) (string, bool) {
	_, value, ok := strings.Cut(b.r.URL.RawQuery, name+"=")
	return value, ok
}

// faults are ways in which one door can be broken, and a target that shows it.
var faults = []struct {
	name, target string
	breaks       func(*door)
}{
	{"takes parameters as they are written", "/o/%34%32", bend(bent{param: asWritten})},
	{"decodes parameters twice", "/o/a%252Fb", bend(bent{param: decodedTwice})},
	{"takes the last of several", "/o/42?q=1&q=2", bend(bent{query: lastOfSeveral})},
	{"takes malformed queries", "/o/42?q=%zz", bend(bent{query: malformed})},
	{"has locks of its own", "/o/42", func(d *door) { d.makeKey = keyfunc.Join(keyfunc.Const("mine"), template) }},
	{"does not lock", "/o/42", func(d *door) { d.makeKey = skip }},
	{"runs what was refused", "/o/{id}/items/", runsAgain},
	{"runs the handler twice", "/o/42", runsAgain},
	{"fails", "/o/42", func(d *door) { d.handler = status(http.StatusInternalServerError) }},
	{"calls a refusal a conflict", "/f/", func(d *door) { d.handler = conflicts(d.handler) }},
}

func skip(keyfunc.Request) (string, error) { return "", keyfunc.Skip }

// runsAgain has the handler run again, or at last.
func runsAgain(d *door) {
	sound := d.handler
	d.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sound.ServeHTTP(w, r)
		d.handle(r, "", nil, r.PathValue, r.URL.Query().Get)
	})
}

func status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// conflicts answers 409 before anybody else can.
func conflicts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusConflict)
		next.ServeHTTP(w, r)
	})
}

func TestBrokenDoorIsNoticed(t *testing.T) {
	for _, fault := range faults {
		t.Run(strings.ReplaceAll(fault.name, " ", "_"), func(t *testing.T) {
			noticed(t, fault.target, func(doors []*door) { fault.breaks(doors[0]) })
		})
	}
}

func TestOneLockForDifferentValuesIsNoticed(t *testing.T) {
	noticed(t, "/f/a", func(doors []*door) { // Gin's handlers see "/a"
		for _, d := range doors {
			d.makeKey = keyfunc.Const("a")
		}
	})
}

// noticed fails the test if the check passes for doors that were broken.
func noticed(t *testing.T, target string, breaks func([]*door)) {
	t.Helper()
	p := failtest.New(t)
	p.Run(func() {
		doors := sound(p)
		breaks(doors)
		check(p, doors, target)
	})
	if !p.Failed() {
		t.Error("the check passes")
	}
	t.Logf("%.300s", p.Said())
}
