package keyfunc_test

import (
	"errors"
	"fmt"

	"github.com/lockmw/kit/keyfunc"
)

func ExampleParse() {
	key, err := keyfunc.Parse("stock:{query.shop|lower}:{query.sku?}")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key(call{query: texts("shop", "Berlin", "sku", "A-1")}))
	fmt.Println(key(call{query: texts("shop", "berlin")}))
	fmt.Println(key(call{}))
	// Output:
	// stock:berlin:A-1 <nil>
	// stock:berlin: <nil>
	//  keyfunc: required value is missing or empty: query "shop"
}

func ExampleParse_error() {
	_, err := keyfunc.Parse("order:{parm.id}")
	fmt.Println(err)

	if syntax, ok := errors.AsType[*keyfunc.SyntaxError](err); ok {
		fmt.Println(syntax.Column, syntax.Reason)
	}
	// Output:
	// keyfunc: template, column 8: unknown source "parm"; did you mean "param"?
	// 	order:{parm.id}
	// 	       ^
	// 8 unknown source "parm"; did you mean "param"?
}

func ExampleMustParse() {
	key := keyfunc.MustParse("order:{param.id}")
	fmt.Println(key(call{param: texts("id", "42")}))
	fmt.Println(key(call{param: texts("id", "4:2")}))
	// Output:
	// order:42 <nil>
	// order:4%3A2 <nil>
}

func ExampleJoin() {
	key := keyfunc.Join(keyfunc.Const("order"), keyfunc.Param("shop"), keyfunc.Param("id"))
	fmt.Println(key(call{param: texts("shop", "a:b", "id", "c")}))
	fmt.Println(key(call{param: texts("shop", "a", "id", "b:c")}))
	// Output:
	// order:a%3Ab:c <nil>
	// order:a:b%3Ac <nil>
}

func ExampleParams() {
	r := call{route: "/shops/:shop/orders/:id", param: texts("shop", "berlin", "id", "42")}
	fmt.Println(keyfunc.Params("id")(r))
	fmt.Println(keyfunc.Params()(r))
	// Output:
	// 42 <nil>
	// berlin:42 <nil>
}

func ExampleRoute() {
	fmt.Println(keyfunc.Route()(call{method: "POST", route: "/orders/:id"}))
	fmt.Println(keyfunc.Route()(call{method: "POST", route: "POST /orders/{id}"}))
	// Output:
	// POST /orders/:id <nil>
	// POST /orders/%7Bid%7D <nil>
}

func ExampleHash() {
	key := keyfunc.Hash(keyfunc.Header("Idempotency-Key"))
	fmt.Println(key(call{header: texts("Idempotency-Key", "a very long one")}))
	// Output:
	// 4a0b63886d4f550531cc1446c48c5bb5ed3d73fb76396922566587323b5b2f52 <nil>
}

func ExampleAll() {
	key := keyfunc.All( // both accounts of a transfer
		keyfunc.MustParse("account:{body.from}"),
		keyfunc.MustParse("account:{body.to}"))
	keys, err := keyfunc.KeysOf(key, call{fields: texts("from", "17", "to", "4")})
	fmt.Println(keys.List(), err)
	// Output: [account:17 account:4] <nil>
}

func ExampleEach() {
	key := keyfunc.Each("body.ids", keyfunc.MustParse("order:{body.ids}"))
	keys, err := keyfunc.KeysOf(key, array("ids", "17", "4", "17")) // {"ids": [17, 4, 17]}
	fmt.Println(keys.List(), err)
	// Output: [order:17 order:4] <nil>
}

func ExampleOptional() {
	key := keyfunc.Join(keyfunc.Const("stock"), keyfunc.Query("sku"), keyfunc.Optional(keyfunc.Query("shelf")))
	fmt.Println(key(call{query: texts("sku", "A-1", "shelf", "3")}))
	fmt.Println(key(call{query: texts("sku", "A-1")}))
	fmt.Println(key(call{query: texts("shelf", "3")}))
	// Output:
	// stock:A-1:3 <nil>
	// stock:A-1: <nil>
	//  keyfunc: required value is missing or empty: query "sku"
}

func ExampleParse_noValue() {
	_, err := keyfunc.Parse("order:{{param.id}}")
	fmt.Println(err)
	// Output:
	// keyfunc: template, column 7: the template names no value, so all requests would take one lock: '{{' and '}}' are literal braces; write {param.id}, or use keyfunc.Const if that is meant
	// 	order:{{param.id}}
	// 	      ^
}

func ExampleSecret() {
	pepper := []byte("from the configuration")
	key := keyfunc.Join(keyfunc.Const("signup"), keyfunc.Secret(pepper, keyfunc.Body("email")))
	fmt.Println(key(call{fields: texts("email", "ann@example.com")}))
	// Output:
	// signup:5a0c6fc335d99993592e257b610e96336325e4dc7b6d56f6fa480432fadeee90 <nil>
}

// A Func of your own decides that reading needs no lock.
func ExampleFunc_skip() {
	order := keyfunc.MustParse("order:{param.id}")
	key := func(r keyfunc.Request) (string, error) {
		if r.Method() == "GET" {
			return "", keyfunc.Skip
		}
		return order(r)
	}
	_, err := key(call{method: "GET", param: texts("id", "42")})
	fmt.Println(errors.Is(err, keyfunc.Skip))
	fmt.Println(key(call{method: "POST", param: texts("id", "42")}))
	// Output:
	// true
	// order:42 <nil>
}

// The tenant comes from authentication, not from what the client sends, and
// stands first: no tenant can lock the resources of another.
func ExampleValue() {
	key := keyfunc.Join(keyfunc.Value("tenant"), keyfunc.Param("id"))
	fmt.Println(key(call{values: map[string]any{"tenant": 12}, param: texts("id", "42")}))
	// Output:
	// 12:42 <nil>
}
