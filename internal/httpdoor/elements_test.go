package httpdoor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/door"
)

func TestElementsOfAnArray(t *testing.T) {
	for _, tc := range []struct {
		path, body string
		want       []string // of the field x, or of the element where it has none
		missing    bool
		err        error
	}{
		{path: "ids", body: `{"ids":[1,2]}`, want: []string{"1", "2"}},
		{path: "ids", body: ` { "ids" : [ "a" , 2.0 , true ] , "x":[3] } `, want: []string{"a", "2", "true"}},
		{path: "ids", body: `{"ids":[]}`, want: []string{}},
		{path: "ids", body: `{"ids":["a,b]","\"",""]}`, want: []string{"a,b]", `"`, ""}},
		{path: "a.ids", body: `{"a":{"ids":[1]}}`, want: []string{"1"}},
		{path: "ids", body: `{"ids":[{"x":1,"y":[{"x":3}]},{"x":"2"}]}`, want: []string{"1", "2"}},
		{path: "ids", body: `{"ids":[null]}`, want: []string{"none"}},
		{path: "ids", body: `{"ids":[{"y":1}]}`, want: []string{"none"}},
		{path: "ids", body: `{"ids":[1,2,3,4]}`, want: []string{"1", "2", "3", "4"}},
		{path: "ids", body: `{"ids":[1,2,3,4,5,6]}`, want: []string{"1", "2", "3", "4"}}, // one more than is wanted
		{path: "ids", body: ``, missing: true},
		{path: "ids", body: `{}`, missing: true},
		{path: "ids", body: `{"ids":null}`, missing: true},
		{path: "a.ids", body: `{"a":null}`, missing: true},
		{path: "ids", body: `{"ids":7}`, err: errNotArray},
		{path: "ids", body: `{"ids":"[1]"}`, err: errNotArray},
		{path: "ids", body: `{"ids":{"0":1}}`, err: errNotArray},
		{path: "a.ids", body: `{"a":[1]}`, err: errNotObject},
		{path: "ids", body: `[1]`, err: errNotObject},
		{path: "ids", body: `{"IDs":[1]}`, err: errCase},
		{path: "ids", body: `{"ids":[1],"ids":[2]}`, err: door.ErrTwice},
		{path: "a.ids", body: `{"a":{"ids":[1]},"a":{"ids":[2]}}`, err: door.ErrTwice},
		{path: "ids", body: `{"ids":[1]`, err: errJSON},
	} {
		list, ok, err := visit(post(strings.NewReader(tc.body)), 100).Elements(tc.path, 3)
		if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || ok != (err == nil && !tc.missing) {
			t.Errorf("%s of %s: %v, %v; want error %v", tc.path, tc.body, ok, err, tc.err)
			continue
		}
		var got []string
		for _, element := range list {
			text, found, err := element("")
			if errors.Is(err, errNotScalar) {
				text, found, err = element("x")
			}
			if err != nil {
				t.Errorf("%s: %v", tc.body, err)
			}
			if !found {
				text = "none"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s of %s = %q, want %q", tc.path, tc.body, got, tc.want)
		}
	}
}

func TestArrayWhoseNameIsInTheQueryIsRefused(t *testing.T) {
	for query, want := range map[string]error{"ids=1": errInQuery, "IDs[]=1": errInQuery, "x=1": nil} {
		r := post(strings.NewReader(`{"ids":[1]}`))
		r.URL.RawQuery = query
		if _, _, err := visit(r, 100).Elements("ids", 3); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("?%s: error = %v, want %v", query, err, want)
		}
	}
}
