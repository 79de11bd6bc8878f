package urls

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/echolock"
	echolock5 "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/failtest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// stored is the value that middleware leaves.
const stored = "stored"

// A bound request is what came of one.
type bound struct {
	ran bool
	key string
	id  string
	err error // of the handler
}

// serves returns a handler for the binder behind its door, which puts into b
// what came of each request. Break is for doors that are to be broken.
func (to binder) serves(locks *lockmw.Locker, path string, b *bound) http.Handler {
	if to.template == "" {
		to.template = "k:{" + to.source + ".id?}"
	}
	key := keyfunc.MustParse(to.template)
	note := func(r *http.Request, id string, err error) {
		b.ran, b.id, b.err = true, id, err
		if lease, held := lockmw.FromContext(r.Context()); held {
			b.key = lease.Key()
		}
	}
	switch {
	case to.gin != nil:
		engine := gin.New()
		engine.Any(path, func(c *gin.Context) { c.Set("id", stored) }, ginlock.Middleware(locks, key, lockmw.Policy{}), func(c *gin.Context) {
			id, err := to.gin(c)
			note(c.Request, id, err)
		})
		return engine
	case to.echo != nil:
		e := echo.New()
		e.Any(path, func(c echo.Context) error {
			id, err := to.echo(c)
			note(c.Request(), id, err)
			return nil
		}, func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				c.Set("id", stored)
				return next(c)
			}
		}, echolock.Middleware(locks, key, lockmw.Policy{}))
		return e
	case to.echo5 != nil:
		e := echo5.New()
		e.Any(path, func(c *echo5.Context) error {
			id, err := to.echo5(c)
			note(c.Request(), id, err)
			return nil
		}, func(next echo5.HandlerFunc) echo5.HandlerFunc {
			return func(c *echo5.Context) error {
				c.Set("id", stored)
				return next(c)
			}
		}, echolock5.Middleware(locks, key, lockmw.Policy{}))
		return e
	}
	mux := http.NewServeMux()
	mux.Handle(strings.Replace(path, ":id", "{id}", 1), httplock.Middleware(locks, key, lockmw.Policy{})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		id, err := to.http(r)
		note(r, id, err)
	})))
	return mux
}

// What a client can send.
var (
	allMethods = []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodHead}

	allTypes = [][]string{
		nil,
		{"application/json"},
		{"application/xml"},
		{"application/x-www-form-urlencoded"},
		{"multipart/form-data; boundary=b"},
		{"application/json; charset=utf-8"},
		{"application/json;charset=ISO-8859-1"},
		{"application/json\t; a=b"},
		{"Application/JSON"},
		{"application/vnd.api+json"},
		{"application/json", "application/xml"},
		{"application/xml", "application/json"},
		{"application/json, application/xml"},
		{"text/json"},
		{"text/xml; charset=utf-8"},
		{"Application/X-WWW-Form-URLencoded; ="},
		{"multipart/mixed; boundary=b"},
		{"application/x-yaml"},
		{"application/yaml"},
		{"application/toml"},
		{"application/x-msgpack"},
		{"application/msgpack"},
		{"application/x-protobuf"},
		{"application/bson"},
		{"text/plain"},
		{"application/octet-stream"},
	}

	allBodies = []string{
		"",
		`{"id":"zzz"}`,
		"id=42",
		`{"x":"zzz"}`,
		`{"id":null}`,
		`{"ID":"42"}`,
		`{"id":"zzz","ID":"42"}`,
		`{"id":"zzz","id":"42"}`,
		`{"id":"zzz","x":1,"\u0069d":"zzz"}`,
		`{"id":"zzz"}{"id":"42"}`,
		`{"id":"zzz"} x`,
		"\ufeff" + `{"id":"zzz"}`,
		`{"id":"zzz","x":"<o><id>42</id></o>"}`,
		`{"x":"<o><id>42</id></o>"}`,
		`{"a":"&id=42&","id":"zzz"}`,
		"{\"id\":\"zzz\"}\r\n--b\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\n42\r\n--b--\r\n",
		"--b\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\n42\r\n--b--\r\n",
		"--b\r\nContent-Disposition: form-data; name=\"ID\"\r\n\r\n42\r\n--b--\r\n",
		"ID=42&x=1",
		"id=42&id=7",
		"id=42&id=42",
		"id=42&x=%zz",
		"id=42;x=1",
		"id=42&[id]=7",
		"-=42",
		`id = "42"`,
		"id: 42",
		"<o><id>42</id></o>",
		"\x81\xa2id\xa242",
		"\x10\x00\x00\x00\x02id\x00\x03\x00\x00\x0042\x00\x00",
	}

	allQueries = []string{"", "?id=42", "?%69d=42&id=7", "?ID=42", "?Id=7&id=42", "?x=1", "?id=42&id=4%32", "?id=42&x=%zz"}
)

// A sent request is one of all.
type sent struct {
	method  string
	types   []string
	body    string
	query   string
	chunked bool
}

func (s sent) String() string {
	return fmt.Sprintf("%s %s %q %q chunked %v", s.method, s.query, s.types, s.body, s.chunked)
}

func (s sent) request(path string) *http.Request {
	var body io.Reader
	if s.body != "" {
		body = strings.NewReader(s.body)
		if s.chunked {
			body = struct{ io.Reader }{body}
		}
	}
	r := httptest.NewRequest(s.method, path+s.query, body)
	if s.types != nil {
		r.Header["Content-Type"] = s.types
	}
	r.Header["Id"] = []string{"ann", "ann"}
	if s.chunked {
		r.Header["Id"] = []string{"ann", "bob"}
	}
	switch len(s.body) % 4 { // some of each
	case 1:
		r.Header["Cookie"] = []string{"x=1; id=a+z"}
	case 2:
		r.Header["Cookie"] = []string{"id=1; ID=2", "id=2"}
	case 3:
		r.Header["Cookie"] = []string{`id="a b"; id="a b"`}
	}
	return r
}

// each calls try with what a client can send. All of it is all types with all
// bodies; the rarer methods and queries come with the common ones of those, and
// what is not all has only these.
func each(all bool, try func(sent)) {
	const commonMethods, commonTypes, commonBodies, commonQueries = 2, 5, 3, 2
	for i, method := range allMethods {
		types := allTypes
		if i >= commonMethods {
			types = types[:commonTypes]
		}
		for _, types := range types {
			for i, body := range allBodies {
				if i < commonBodies {
					try(sent{method: method, types: types, body: body, chunked: true})
				} else if !all {
					break
				}
				for j, query := range allQueries {
					if i < commonBodies || j < commonQueries {
						try(sent{method: method, types: types, body: body, query: query})
					}
				}
			}
		}
	}
}

// checkBinder sends all, or less, to a binder behind its door, and fails the test
// unless each request is refused, by the door or the handler, or the key is made
// from what the handler sees. It returns how many handlers saw a value, and how
// many none.
func checkBinder(tb testing.TB, locks *lockmw.Locker, to binder, all bool, path, target string) (values, none int) {
	tb.Helper()
	var b bound
	handler := to.serves(locks, path, &b)
	wrong := 0
	each(all, func(s sent) {
		if len(to.methods) > 0 && !slices.Contains(to.methods, s.method) {
			return
		}
		b = bound{}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, s.request(target))
		switch {
		case !b.ran && w.Code != http.StatusBadRequest:
			tb.Errorf("%s: status %d, and no handler ran", s, w.Code)
		case !b.ran, b.err != nil:
		case b.key != "k:"+b.id:
			if wrong++; wrong <= 5 {
				tb.Errorf("%s: the key is %q, and the handler sees %q", s, b.key, b.id)
			}
		case b.id == "":
			none++
		default:
			values++
		}
	})
	if wrong > 5 {
		tb.Errorf("and %d more", wrong-5)
	}
	return values, none
}

func TestKeyIsWhatEveryBinderSees(t *testing.T) {
	locks := doortest.Instant(t)
	gin.SetMode(gin.TestMode)
	for _, to := range binders {
		t.Run(strings.ReplaceAll(to.source+" "+to.name, " ", "_"), func(t *testing.T) {
			all := to.source == "body" || to.source == "form" || to.source == "query" || strings.HasSuffix(to.name, " Bind")
			values, none := checkBinder(t, locks, to, all, "/o/:id", "/o/7")
			if to.source == "body" || to.source == "form" || to.source == "query" { // some look into the path as well
				more, others := checkBinder(t, locks, to, false, "/o", "/o")
				values, none = values+more, none+others
			}
			if values == 0 {
				t.Errorf("no handler saw a value")
			}
			t.Logf("%d handlers saw a value, %d none", values, none)
		})
	}
}

func TestBinderThatReadsSomethingElseIsNoticed(t *testing.T) {
	gin.SetMode(gin.TestMode)
	for _, to := range []binder{
		{name: "reads XML", source: "body", http: func(r *http.Request) (string, error) {
			var o order
			err := xml.NewDecoder(r.Body).Decode(&o)
			return o.ID, err
		}},
		{name: "reads the query", source: "body", gin: ginBinding(binding.Query)},
		{name: "reads forms", source: "query", http: func(r *http.Request) (string, error) { return r.PostFormValue("id"), nil }},
		{name: "reads the query", source: "form", http: func(r *http.Request) (string, error) { return r.URL.Query().Get("id"), nil }},
		{name: "reads JSON", source: "form", http: jsonOf},
		{name: "reads cookies undecoded", source: "cookie", gin: func(c *gin.Context) (string, error) { return cookieOf(c.Request.Cookie("id")) }},
		{name: "reads the body", source: "query", gin: ginBinds((*gin.Context).ShouldBind)},
		{name: "reads all lines", source: "header", http: func(r *http.Request) (string, error) { return strings.Join(r.Header["Id"], ", "), nil }},
		{name: "reads the body", source: "param", echo: echoBinds(idOfPath, echoBind)},
		{name: "reads the body in echo v5", source: "param", echo5: echoBinds(idOfPath, (*echo5.Context).Bind)},
		{name: "reads the path", source: "value", echo: func(c echo.Context) (string, error) { return c.Param("id"), nil }},
	} {
		t.Run(strings.ReplaceAll(to.source+" "+to.name, " ", "_"), func(t *testing.T) {
			p := failtest.New(t)
			p.Run(func() { checkBinder(p, doortest.Instant(p), to, true, "/o/:id", "/o/7") })
			if !p.Failed() {
				t.Error("the check passes")
			}
			t.Logf("%.200s", p.Said())
		})
	}
}

// What the documents warn of: these handlers read a name from where the client
// chooses, and no door can know it.
func TestHandlersThatReadSeveralPlaces(t *testing.T) {
	gin.SetMode(gin.TestMode)
	for _, tc := range []struct {
		name    string
		to      binder
		sent    sent
		key, id string
	}{
		{
			"c.Bind overwrites a parameter by the body",
			binder{source: "param", echo: echoBinds(idOfPath, echoBind)},
			sent{method: http.MethodPost, types: allTypes[1], body: `{"id":"42"}`}, "k:7", "42",
		},
		{
			"unless the field is closed to the body",
			binder{source: "param", echo: echoBinds(idOfOnly, echoBind)},
			sent{method: http.MethodPost, types: allTypes[1], body: `{"id":"42"}`}, "k:7", "7",
		},
		{
			"c.ShouldBind takes a POST's JSON and not the query",
			binder{source: "query", gin: ginBinds((*gin.Context).ShouldBind)},
			sent{method: http.MethodPost, types: allTypes[1], body: `{"id":"42"}`, query: "?id=zzz"}, "k:zzz", "42",
		},
		{
			"a reader of one kind of form takes no other",
			binder{source: "form", gin: ginBinding(binding.FormPost)},
			sent{method: http.MethodPost, types: allTypes[4], body: "--b\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\n42\r\n--b--\r\n"}, "k:42", "",
		},
		{
			"c.ShouldBindQuery takes the query",
			binder{source: "query", gin: ginBinding(binding.Query)},
			sent{method: http.MethodPost, types: allTypes[1], body: `{"id":"42"}`, query: "?id=zzz"}, "k:zzz", "zzz",
		},
	} {
		var b bound
		tc.to.serves(doortest.Instant(t), "/o/:id", &b).ServeHTTP(httptest.NewRecorder(), tc.sent.request("/o/7"))
		if !b.ran || b.err != nil || b.key != tc.key || b.id != tc.id {
			t.Errorf("%s: ran %v, error %v, key %q, seen %q; want key %q, seen %q", tc.name, b.ran, b.err, b.key, b.id, tc.key, tc.id)
		}
	}
}
