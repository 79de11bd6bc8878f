package echotest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func (v Version[C]) parameterBeyondItsSegmentIsRefused(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	var key string
	note := func(c C) error {
		if lease, ok := lockmw.FromContext(c.Request().Context()); ok {
			key = lease.Key()
		}
		return nil
	}
	e.Route(http.MethodGet, "/orders/:id", note, v.Lock(locks, keyfunc.MustParse("order:{param.id}"), lockmw.Policy{}))
	e.Route(http.MethodGet, "/const/:id", note, v.lock(locks))
	e.Route(http.MethodGet, "/files/*", note, v.Lock(locks, keyfunc.Param("*"), lockmw.Policy{}))
	for _, tc := range []struct {
		path   string
		status int
		key    string
	}{
		{"/orders/42", http.StatusOK, "order:42"},
		{"/orders/%34%32", http.StatusOK, "order:42"},
		{"/orders/42/", http.StatusBadRequest, ""},
		{"/orders/%34%32/", http.StatusBadRequest, ""},
		{"/orders/42//", http.StatusBadRequest, ""},
		{"/orders/42/x", http.StatusBadRequest, ""},
		{"/orders/42%2F", http.StatusBadRequest, ""},
		{"/orders/4%2F2", http.StatusOK, "order:4/2"},
		{"/orders/100%25", http.StatusOK, "order:100%25"},
		{"/orders/100%25%36", http.StatusOK, "order:100%256"},
		{"/const/42/", http.StatusOK, "k"},
		{"/files/a/b", http.StatusOK, "a/b"},
		{"/files/a%2Fb", http.StatusOK, "a/b"},
		{"/files/a/%2E%2E/b", http.StatusBadRequest, ""},
	} {
		key = ""
		w := send(e, http.MethodGet, tc.path)
		if w.Code != tc.status || key != tc.key {
			t.Errorf("%s: status %d, key %q; want %d, %q", tc.path, w.Code, key, tc.status, tc.key)
		}
		wantNamed(t, w, "parameter", "id")
	}
}

// wantNamed fails the test unless a refusal names the value at fault. The wildcard is "*".
func wantNamed(t *testing.T, w *httptest.ResponseRecorder, noun, name string) {
	t.Helper()
	says := func(name string) bool {
		return strings.Contains(w.Body.String(), "the "+noun+` \"`+name+`\" `)
	}
	if w.Code == http.StatusBadRequest && !says(name) && !says("*") {
		t.Errorf("the answer does not name the %s %q: %s", noun, name, w.Body)
	}
}

// parameterIsOneLockToEveryHandler: to those that decode c.Param, to those
// that do not, and to those that do it where Echo has not.
func (v Version[C]) parameterIsOneLockToEveryHandler(t *testing.T) {
	locks, _ := testenv.Locker(t)
	seen := make(map[string]string)
	note := func(c C) error {
		lease, ok := lockmw.FromContext(c.Request().Context())
		if !ok {
			return errors.New("there is no lock")
		}
		sent := c.Param("*") + c.Param("id")
		decoded, err := url.PathUnescape(sent)
		if err != nil {
			decoded = sent
		}
		careful := sent
		if c.Request().URL.RawPath != "" {
			careful = decoded
		}
		for how, value := range map[string]string{"as it is": sent, "decoded": decoded, "with care": careful} {
			value = how + ": " + value
			if key, is := seen[value]; is && key != lease.Key() {
				t.Errorf("%s: the value, %s, has the key %q, and had %q", c.Request().RequestURI, value, lease.Key(), key)
			}
			seen[value] = lease.Key()
		}
		return nil
	}
	e := v.New(false)
	e.Route(http.MethodGet, "/orders/:id", note, v.Lock(locks, keyfunc.Param("id"), lockmw.Policy{}))
	e.Route(http.MethodGet, "/files/*", note, v.Lock(locks, keyfunc.Param("*"), lockmw.Policy{}))
	for _, of := range []string{"/orders/", "/files/"} {
		clear(seen)
		for value, want := range map[string]int{
			"42": http.StatusOK, "%34%32": http.StatusOK, "4%32": http.StatusOK,
			"%2534%2532": http.StatusBadRequest, "%25%33%34%32": http.StatusBadRequest, "4%2532": http.StatusBadRequest,
			"a%2Fb": http.StatusOK, "a%252Fb": http.StatusBadRequest,
			"100%25": http.StatusOK, "100%2525": http.StatusBadRequest, "100%25x": http.StatusOK,
		} {
			if w := send(e, http.MethodGet, of+value); w.Code != want {
				t.Errorf("%s: status = %d, want %d", of+value, w.Code, want)
			}
		}
	}
}

// c.Bind fills a field from the path, and then from the query, if that has it.
func (v Version[C]) parameterInPlaceOfAMissingQueryIsRefused(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	lock := v.Lock(locks, keyfunc.MustParse("item{query.sku?}"), lockmw.Policy{})
	bound := func(c C) error {
		var item struct {
			SKU string `param:"sku" query:"sku"`
		}
		if err := c.Bind(&item); err != nil {
			return err
		}
		if lease, _ := lockmw.FromContext(c.Request().Context()); lease.Key() != "item"+item.SKU {
			t.Errorf("%s: the key is %q, and c.Bind finds %q", c.Request().RequestURI, lease.Key(), item.SKU)
		}
		return nil
	}
	e.Route(http.MethodGet, "/items/:sku", bound, lock)
	e.Route(http.MethodGet, "/wares/:SKU", bound, lock)
	e.Route(http.MethodGet, "/shops/:id", bound, lock)
	for path, want := range map[string]int{
		"/items/8": http.StatusBadRequest, "/wares/8": http.StatusBadRequest,
		"/items/8?sku=7": http.StatusOK, "/wares/8?sku=": http.StatusOK, "/shops/8": http.StatusOK,
	} {
		w := send(e, http.MethodGet, path)
		if w.Code != want {
			t.Errorf("%s: status = %d, want %d", path, w.Code, want)
		}
		wantNamed(t, w, "query parameter", "sku")
	}
}

// c.Param returns the first of them, and c.Bind the last.
func (v Version[C]) parametersOfOneNameAreRefusedIfTheyDiffer(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	e.Route(http.MethodGet, "/shops/:id/orders/:id", func(C) error { return nil }, v.Lock(locks, keyfunc.Param("id"), lockmw.Policy{}))
	for path, want := range map[string]int{"/shops/7/orders/7": http.StatusOK, "/shops/7/orders/8": http.StatusBadRequest} {
		w := send(e, http.MethodGet, path)
		if w.Code != want {
			t.Errorf("%s: status = %d, want %d", path, w.Code, want)
		}
		wantNamed(t, w, "parameter", "id")
	}
}

func (v Version[C]) parameterThatTheKeyDoesNotNeedIsNotRefused(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	e.Route(http.MethodPost, "/orders/:id", func(C) error { return nil }, v.Lock(locks, keyfunc.Body("id"), lockmw.Policy{}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders/42/", strings.NewReader(`{"id":7}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if e.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("status = %d, want 200", w.Code)
	}
}

// In other routers' patterns a brace begins a parameter, and a colon none.
func (v Version[C]) braceInARouteIsABrace(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	key := ""
	e.Route(http.MethodGet, "/{shop}/:id/items/*", func(c C) error {
		lease, _ := lockmw.FromContext(c.Request().Context())
		key = lease.Key()
		return nil
	}, v.Lock(locks, keyfunc.Params(), lockmw.Policy{}))
	if answer := testenv.Ask(e, "GET /%7Bshop%7D/42/items/7"); answer != "200 " || key != "42:7" {
		t.Errorf("answer = %q under %q, want 200 under 42:7", answer, key)
	}
}

// Where c.Bind reads the query, it reads the body after it.
func (v Version[C]) bodyThatOverwritesTheQueryIsRefused(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	lock := v.Lock(locks, keyfunc.Query("sku"), lockmw.Policy{})
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodPost} {
		e.Route(method, "/", func(C) error { return nil }, lock)
	}
	for _, tc := range []struct {
		method, body string
		want         int
	}{
		{http.MethodGet, "", http.StatusOK},
		{http.MethodGet, `{"SKU":8}`, http.StatusBadRequest},
		{http.MethodHead, `{"SKU":8}`, http.StatusBadRequest},
		{http.MethodDelete, "", http.StatusOK},
		{http.MethodDelete, `{"SKU":8}`, http.StatusBadRequest},
		{http.MethodDelete, strings.Repeat(" ", 64<<10) + `{"SKU":8}`, http.StatusBadRequest},
		{http.MethodPost, `{"SKU":8}`, http.StatusOK},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tc.method, "/?sku=7", strings.NewReader(tc.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if e.ServeHTTP(w, r); w.Code != tc.want {
			t.Errorf("%s of %.20q: status = %d, want %d", tc.method, tc.body, w.Code, tc.want)
		}
		if tc.method != http.MethodHead {
			wantNamed(t, w, "query parameter", "sku")
		}
	}
}
