package spellings

import (
	"net/http"
	"slices"
	"testing"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/proof/routers"
)

// A table that no door could fail would say nothing.
func TestLocksThatDisagreeAreFound(t *testing.T) {
	spellings := inQuery("id=42", "id=7", "id=42&id=42", "id=42&id=7", "id=7&id=42", "x=1")
	for _, tc := range []struct {
		name string
		key  keyfunc.Func
		want []verdict
	}{
		{"sound", keyfunc.MustParse("{query.id}"), []verdict{same, other, same, "400", "400", "400"}},
		{"the first of two", httplock.Key(func(r *http.Request) (string, error) { return r.URL.Query().Get("id"), nil }), []verdict{same, other, same, two, two, "400"}},
		{"one for all", keyfunc.Const("k"), []verdict{same, shares, same, shares, same, fails}},
		{"as it was sent", httplock.Key(func(r *http.Request) (string, error) { return r.URL.RawQuery, nil }), []verdict{same, other, two, two, two, fails}},
		{"none", func(keyfunc.Request) (string, error) { return "", keyfunc.Skip }, []verdict{bare, bare, bare, bare, bare, fails}},
	} {
		b := &batch{
			site: &routers.Site{Locks: doortest.Instant(t), Key: tc.key}, router: "net/http", pattern: "/p", spellings: spellings,
			readers: []reader{func(c routers.Call) (string, error) { return atoi(last(c.Request.URL.Query()["id"])) }},
		}
		b.run()
		if got := (place{b, 0}).verdicts(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
