package httpdoor

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRouteParamHasOneSpelling(t *testing.T) {
	for _, tc := range []struct {
		path, sent string
		escaped    bool
		value      string
		err        error
	}{
		{path: "/o/42", sent: "42", value: "42"},
		{path: "/o/a%20b", sent: "a b", value: "a b"},
		{path: "/o/100%25", sent: "100%", value: "100%"},
		{path: "/o/100%25x", sent: "100%x", value: "100%x"},
		{path: "/o/", sent: ""},
		{path: "/o/...", sent: "...", value: "..."},
		{path: "/o/.a", sent: ".a", value: ".a"},
		{path: "/o/%34%32", sent: "%34%32", value: "42"}, // of a router that does not decode it
		{path: "/o/ann%40shop.test/pay", sent: "ann%40shop.test", value: "ann@shop.test"},
		{path: "/o/a%20b", sent: "a%20b", value: "a b"},
		{path: "/o/%25%33%34", sent: "%25%33%34", err: errEscaped},
		{path: "/o/%31%25", sent: "%31%25", value: "1%"},
		{path: "/f/a%2F%2Fb", sent: "a%2F%2Fb", err: errUnclean},
		{path: "/o/a%2525", sent: "a%25", err: errEscaped},
		{path: "/o/%34/pay/%2534", sent: "%34", err: errEscaped},
		{path: "/o/%2534%2532", sent: "%34%32", err: errEscaped},
		{path: "/o/4%2532", sent: "4%32", err: errEscaped},
		{path: "/o/a%2Fb", sent: "a%2Fb", value: "a/b"},
		{path: "/o/a%252Fb", sent: "a%2Fb", err: errEscaped},

		{path: "/o/%34%32", sent: "%34%32", escaped: true, value: "42"},
		{path: "/o/%25%33%34", sent: "%25%33%34", escaped: true, err: errEscaped},
		{path: "/o/%31%25", sent: "%31%25", escaped: true, value: "1%"},
		{path: "/o/100", sent: "100%", escaped: true, err: errBrokenEscape},
		{path: "/f/a%2F%2Fb", sent: "a%2F%2Fb", escaped: true, err: errUnclean},
		{path: "/f/%2Fa", sent: "%2Fa", escaped: true, err: errUnclean},

		{path: "/f/a/b", sent: "a/b", value: "a/b"},
		{path: "/f/a/b", sent: "/a/b", value: "/a/b"}, // as Gin and httprouter have it
		{path: "/f/", sent: "/", value: "/"},
		{path: "/f/a/..b/c..", sent: "a/..b/c..", value: "a/..b/c.."},
		{path: "/f/%2Fa", sent: "/a", err: errUnclean},
		{path: "/f//a", sent: "/a", err: errUnclean},
		{path: "/f//a", sent: "//a", err: errUnclean},
		{path: "/f//", sent: "/", err: errUnclean},
		{path: "/f//", sent: "//", err: errUnclean},
		{path: "/f/a/", sent: "a/", err: errUnclean},
		{path: "/f/a/", sent: "/a/", err: errUnclean},
		{path: "/f/a//b", sent: "a//b", err: errUnclean},
		{path: "/f/a/./b", sent: "a/./b", err: errUnclean},
		{path: "/f/./a", sent: "./a", err: errUnclean},
		{path: "/f/x/../a", sent: "x/../a", err: errUnclean},
		{path: "/f/../f/a", sent: "../f/a", err: errUnclean},
		{path: "/f/..", sent: "..", err: errUnclean},
		{path: "/f/.", sent: "/.", err: errUnclean},
	} {
		v := visit(httptest.NewRequest(http.MethodPost, tc.path, nil), 100)
		value, ok := v.RouteParam("id", tc.sent, tc.escaped)
		if !errors.Is(v.refused, tc.err) || (v.refused == nil) != (tc.err == nil) {
			t.Errorf("%q of %s, escaped %v: error %v, want %v", tc.sent, tc.path, tc.escaped, v.refused, tc.err)
		}
		if tc.err == nil && (value != tc.value || ok != (value != "")) {
			t.Errorf("%q of %s, escaped %v: %q, %v; want %q", tc.sent, tc.path, tc.escaped, value, ok, tc.value)
		}
	}
}
