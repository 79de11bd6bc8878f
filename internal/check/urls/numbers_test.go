package urls

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/internal/test/doortest"
)

// numbered are the ways in which handlers read a number from a JSON body into a
// T, of which show makes a text that is the same for equal numbers.
func numbered[T any](template string, show func(T) string) []binder {
	type order struct {
		ID T `json:"id"`
	}
	id := func(o *order) string { return show(o.ID) }
	return []binder{
		{name: "json.Decoder", template: template, http: func(r *http.Request) (string, error) {
			var o order
			err := json.NewDecoder(r.Body).Decode(&o)
			return id(&o), err
		}},
		{name: "gin ShouldBind", template: template, gin: func(c *gin.Context) (string, error) {
			var o order
			err := c.ShouldBind(&o)
			return id(&o), err
		}},
		{name: "echo Bind", template: template, echo: echoBinds(id, echoBind)},
		{name: "echo v5 Bind", template: template, echo5: echoBinds(id, (*echo5.Context).Bind)},
	}
}

func shown[T any](n T) string { return fmt.Sprint(n) }

func pointed(n *int64) string {
	if n == nil {
		return "nil"
	}
	return shown(*n)
}

func floating(f float64) string {
	if f == 0 {
		f = 0 // not -0
	}
	return shown(f)
}

func anything(value any) string {
	if f, ok := value.(float64); ok {
		return floating(f)
	}
	return shown(value)
}

// A number is what the member id of a body is. An empty one is missing.
type number string

func (n number) body() string {
	if n == "" {
		return `{}`
	}
	return `{"id":` + string(n) + `}`
}

var integers = []number{
	"", "null", "0", "-0", "1", "-1", "7", "42",
	"9007199254740991", "9007199254740992", "9007199254740993", "9007199254740994", "-9007199254740993",
	"9223372036854775806", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615", "18446744073709551616",
}

var fractions = []number{
	"0.0", "-0.0", "0e5", "1.0", "1e0", "10e-1", "0.1e1", "1.000E+00", "42.0", "4.2e1", "0.1", "0.10", "1e-1", "0.2", "1.5", "15e-1",
	"9007199254740992.0", "9007199254740993.0", "9.007199254740993e15", "1e20", "100000000000000000000", "100000000000000000001",
	"42.00000000000000000001", "0.1000000000000000055511151231257827", "1e300", "1e400", "1e-400", "-1e400",
}

var texts = []number{`"1"`, `"42"`, `"0"`, `""`, `"1.0"`, `"x"`, "true"}

// seen is what came of the bodies with these numbers that were not refused.
func seen(t *testing.T, to binder, numbers []number) map[number]bound {
	t.Helper()
	var b bound
	handler := to.serves(doortest.Instant(t), "/n", &b)
	all := make(map[number]bound)
	for _, n := range numbers {
		b = bound{}
		w := httptest.NewRecorder()
		s := sent{method: http.MethodPost, types: []string{"application/json"}, body: n.body()}
		handler.ServeHTTP(w, s.request("/n"))
		if !b.ran && w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", s.body, w.Code)
		}
		if b.ran && b.err == nil {
			all[n] = b
		}
	}
	return all
}

// Two numbers that a handler sees as equal give one key, and two that it sees as
// different give two.
func TestKeysAreEqualAsNumbersAre(t *testing.T) {
	gin.SetMode(gin.TestMode)
	required := integers[2:]
	small := []number{"0", "-0", "1", "-1", "7", "42", "9007199254740991", "9007199254740992", "9007199254740994"}
	join := func(lists ...[]number) (all []number) {
		for _, list := range lists {
			all = append(all, list...)
		}
		return all
	}
	for _, tc := range []struct {
		name    string
		ways    []binder
		numbers []number
		served  int // at least, so that it is not all refused
	}{
		{"int64", numbered("k:{body.id?|int}", shown[int64]), join(integers, fractions, texts), 16},
		{"uint64", numbered("k:{body.id?|int}", shown[uint64]), join(integers, fractions, texts), 14},
		{"pointer", numbered("k:{body.id?}", pointed), join(integers, fractions, texts), 16},
		{"required int64", numbered("k:{body.id}", shown[int64]), join(integers, fractions, texts), 14},
		{"required uint64", numbered("k:{body.id}", shown[uint64]), join(integers, fractions, texts), 12},
		{"required float64", numbered("k:{body.id}", floating), join(small, fractions), 25},
		{"required text", numbered("k:{body.id}", shown[string]), join(required, fractions, texts), 5},
		{"required any", numbered("k:{body.id}", anything), join(small, fractions), 25},
	} {
		for _, to := range tc.ways {
			t.Run(strings.ReplaceAll(tc.name+" "+to.name, " ", "_"), func(t *testing.T) {
				all := seen(t, to, tc.numbers)
				if len(all) < tc.served {
					t.Errorf("%d numbers were served, want at least %d", len(all), tc.served)
				}
				for a, ofA := range all {
					for b, ofB := range all {
						if (ofA.id == ofB.id) != (ofA.key == ofB.key) {
							t.Errorf("%s is %q with the key %q, and %s is %q with the key %q", a, ofA.id, ofA.key, b, ofB.id, ofB.key)
						}
					}
				}
				t.Logf("%d of %d numbers were served", len(all), len(tc.numbers))
			})
		}
	}
}

// What the documents warn of: each of these handlers sees one value where there
// are two keys.
func TestHandlersThatLoseWhatTheKeyHas(t *testing.T) {
	gin.SetMode(gin.TestMode)
	for _, tc := range []struct {
		name string
		ways []binder
		a, b number
	}{
		{"float64 beyond 2^53", numbered("k:{body.id}", shown[float64]), "9007199254740992", "9007199254740993"},
		{"any beyond 2^53", numbered("k:{body.id}", shown[any]), "9007199254740992", "9007199254740993"},
		{"int64 without |int", numbered("k:{body.id?}", shown[int64]), "", "0"},
	} {
		for _, to := range tc.ways {
			all := seen(t, to, []number{tc.a, tc.b})
			if a, b := all[tc.a], all[tc.b]; len(all) != 2 || a.id != b.id || a.key == b.key {
				t.Errorf("%s, %s: %s is %q with the key %q, and %s is %q with the key %q", tc.name, to.name, tc.a, a.id, a.key, tc.b, b.id, b.key)
			}
		}
	}
}
