package keyfunc_test

import (
	"errors"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

func TestTemplateFillsItsPlaceholders(t *testing.T) {
	r := call{
		method: "POST", route: "/shops/:shop/orders/:id",
		param:  texts("shop", "berlin", "id", "4:2"),
		query:  texts("sku", "A-1", "filter.name", "x"),
		header: texts("X-User", "ann"),
		fields: texts("customer.id", "007"),
		values: map[string]any{"tenant": 12, "auth.user": "u"},
	}
	for _, tc := range []struct{ template, want string }{
		{"order:{param.id}", "order:4%3A2"},
		{"{param.id}", "4:2"},
		{"{param.shop}/{query.sku}", "berlin/A-1"},
		{"{query.sku}-{param.shop}", "A%2D1-berlin"},
		{"{query.sku}{param.shop}", "A-1:berlin"},
		{"{header.X-User}", "ann"},
		{"c{body.customer.id|int}", "c7"},
		{"{value.tenant}:{value.auth.user}:{query.filter.name}", "12:u:x"},
		{"{method} {route}", "POST /shops/%3Ashop/orders/%3Aid"},
		{"{route}", "/shops/:shop/orders/:id"},
		{"p:{params}", "p:berlin:4%3A2"},
		{"{params|hash}", "fb38a93fd89e1a5fc7852a5d7109e321d23a721a1899292273ac5a21dc4db378" +
			":d29b9bf02d7daea9b978633edbd91ab81309827e24e16e46f0f2b93f904573f1"},
		{"{params}-{query.sku}", "berlin:4%3A2-A-1"},
		{"stock:{query.sku?}", "stock:A-1"},
		{"stock:{query.nope?}", "stock:"},
		{"{query.nope?}x", "x"},
		{"stock:{query.nope?|int}:{query.sku?|lower}", "stock:0:a-1"},
		{"{{{param.shop}}}", "%7Bberlin:%7D"},
		{"{query.sku}%", "A-1:%25"},
		{"Ü{query.sku}é{param.shop}", "ÜA-1éberlin"},
	} {
		t.Run(tc.template, func(t *testing.T) {
			wantKey(t, keyfunc.MustParse(tc.template), r, tc.want)
		})
	}
}

// Each pair is one that a scheme without care would give the same key.
func TestTextAfterAPlaceholderCannotBeForged(t *testing.T) {
	for _, tc := range []struct {
		template   string
		one, other tuple
	}{
		{"{param.a}A{param.b}", tuple{"xA", "y"}, tuple{"x", "Ay"}},
		{"{param.a}3{param.b}", tuple{":", "y"}, tuple{"%", "A3y"}},
		{"{param.a}%{param.b}", tuple{"x", "25y"}, tuple{"x%25", "y"}},
		{"{param.a}{{{param.b}", tuple{"x{", "y"}, tuple{"x", "{y"}},
		{"{param.a}é{param.b}", tuple{"xé", "y"}, tuple{"x", "éy"}},
		{"{param.a}é{param.b}", tuple{"x\xc3", "y"}, tuple{"x%C3", "y"}},
		{"{param.a}{param.b}", tuple{"x", "yz"}, tuple{"xy", "z"}},
		{"{param.a}{param.b}", tuple{"x:y", "z"}, tuple{"x", "y:z"}},
	} {
		t.Run(tc.template, func(t *testing.T) {
			f := keyfunc.MustParse(tc.template)
			if one, other := mustKey(t, f, tc.one), mustKey(t, f, tc.other); one == other {
				t.Errorf("%q and %q both give %q", tc.one, tc.other, one)
			}
		})
	}
}

func TestTemplateOfNothingButMissingValuesIsErrMissing(t *testing.T) {
	for _, template := range []string{
		"{query.a?}",
		"{query.a?}{query.b?|lower}",
		"{query.a?}{header.b?}{value.c?}",
	} {
		t.Run(template, func(t *testing.T) {
			wantErr(t, keyfunc.MustParse(template), call{}, keyfunc.ErrMissing)
		})
	}
	wantKey(t, keyfunc.MustParse("{query.a?}{query.b?}"), call{query: texts("b", "1")}, ":1")
}

func TestMustParsePanicsWithTheSyntaxError(t *testing.T) {
	err, ok := panicOf(t, func() { keyfunc.MustParse("{") }).(error)
	var syntax *keyfunc.SyntaxError
	if !ok || !errors.As(err, &syntax) {
		t.Errorf("panic = %v, want a *SyntaxError", err)
	}
}
