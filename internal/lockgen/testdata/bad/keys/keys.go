// Package keys has mistakes in keys.
package keys

import (
	"context"
	"io"
	"net/url"
	"time"
)

type Order struct {
	ID       string
	Total    float64
	Customer *Customer
	Lines    []Line
	At       time.Time
	secret   map[string]int
}

func (o Order) Text(lang string) string { return o.ID + lang }

func (o Order) Number() int { return 1 }

func (o Order) Nothing() {}

type Customer struct{ Name, Mail string }

type Line struct{ SKU string }

type Money struct{ cents int }

func (m Money) String() string { return "" }

var region = "eu"

func tenant(ctx context.Context) (string, error) { return "", nil }

func generic[T any](v T) string { return "" }

func variadic(ids ...string) string { return "" }

func none(id string) {}

func two(id string) (string, string) { return "", "" }

func weight(id string) float64 { return 0 }

type Keys interface {
	// want 15: the key is missing: //lockmw:lock KEY… [option=value…]; write {method} if all calls are to take one lock
	//
	//lockmw:lock
	A1(ctx context.Context, id string) error
	// want 29: the key is missing: //lockmw:lock KEY… [option=value…]; write {method} if all calls are to take one lock
	//
	//lockmw:lock prefix=order:
	A2(ctx context.Context, id string) error
	// want 16: an empty key would lock all calls against each other
	//
	//lockmw:lock ""
	A3(ctx context.Context, id string) error
	// want 16: a word that begins with a quote ends with one, and a space follows
	//
	//lockmw:lock "order:{id}
	A4(ctx context.Context, id string) error
	// want 16: the key names no value, so all calls of A5 would take one lock; write a placeholder such as {id}, or {method} if that is meant
	//
	//lockmw:lock order:
	A5(ctx context.Context, id string) error
	// want 16: '{' is never closed; write {{ for a brace in the text
	//
	//lockmw:lock {id
	B1(ctx context.Context, id string) error
	// want 18: '}' without '{'; write }} for a brace in the text
	//
	//lockmw:lock id}
	B2(ctx context.Context, id string) error
	// want 22: "#id" is no placeholder here, but text that all keys would share: write {id}
	//
	//lockmw:lock order:#id
	B3(ctx context.Context, id string) error
	// want 22: '${' is not how a placeholder begins: write {id}
	//
	//lockmw:lock order:${id}
	B4(ctx context.Context, id string) error
	// want 20: unknown filter "lowr"; did you mean "lower"?
	//
	//lockmw:lock {id|lowr}
	B5(ctx context.Context, id string) error
	// want 21: the key {id} stands here twice
	//
	//lockmw:lock {id} {id}
	B6(ctx context.Context, id string) error
	// want 19: words are separated by spaces: leave out the ','; a word that ends in one is written in quotes
	//
	//lockmw:lock {b}, {id}
	B7(ctx context.Context, b, id string) error
	// want 28: words are separated by spaces: leave out the ','; a word that ends in one is written in quotes
	//
	//lockmw:lock {id} wait=3s, ttl=3s
	B8(ctx context.Context, id string) error
	// want 17: C1 has no parameter "idd"; did you mean "id"?
	//
	//lockmw:lock {idd}
	C1(ctx context.Context, id string) error
	// want 17: order is a struct (Order); take a field of it: ID, Total, Customer, Lines, At, secret
	//
	//lockmw:lock {order}
	C2(ctx context.Context, order Order) error
	// want 23: Order has no field or method "id"; did you mean "ID"?
	//
	//lockmw:lock {order.id}
	C3(ctx context.Context, order Order) error
	// want 23: *Order has no field or method "Price"; it has ID, Total, Customer, Lines, At, secret
	//
	//lockmw:lock {order.Price}
	C4(ctx context.Context, order *Order) error
	// want 17: order.Total is a float64: 0.1+0.2 and 0.3 would be two locks; take an integer or a text
	//
	//lockmw:lock {order.Total}
	C5(ctx context.Context, order Order) error
	// want 17: order.At is a time.Time, which has many texts for one instant; write a function of the package that says which part counts, as in {day(order.At)}
	//
	//lockmw:lock {order.At}
	C6(ctx context.Context, order Order) error
	// want 17: order.Lines is a list ([]Line); write {order.Lines...} for a key of each element
	//
	//lockmw:lock {order.Lines}
	C7(ctx context.Context, order Order) error
	// want 17: an element of order.Lines is a Line; write a function of the package that returns a list of texts, as in {texts(order.Lines)...}
	//
	//lockmw:lock {order.Lines...}
	C8(ctx context.Context, order Order) error
	// want 17: order.ID is no list (string): leave out '...'
	//
	//lockmw:lock {order.ID...}
	C9(ctx context.Context, order Order) error
	// want 23: Number is a method of Order: write Number()
	//
	//lockmw:lock {order.Number}
	D1(ctx context.Context, order Order) error
	// want 23: ID is a field of Order: leave out the parentheses
	//
	//lockmw:lock {order.ID()}
	D2(ctx context.Context, order Order) error
	// want 23: Order.Text takes arguments; write a function of the package that calls it
	//
	//lockmw:lock {order.Text()}
	D3(ctx context.Context, order Order) error
	// want 23: Nothing must return a value, or a value and an error
	//
	//lockmw:lock {order.Nothing()}
	D4(ctx context.Context, order Order) error
	// want 17: order.secret is a map[string]int, which has no text
	//
	//lockmw:lock {order.secret}
	D5(ctx context.Context, order Order) error
	// want 17: money is a struct (Money); if its String tells any two values apart, write {money.String()}
	//
	//lockmw:lock {money}
	D6(ctx context.Context, money Money) error
	// want 17: a context is no key; take what it carries by a function of the package, as in {tenant(ctx)}
	//
	//lockmw:lock {ctx}
	E1(ctx context.Context, id string) error
	// want 17: r is an interface (io.Reader), which may hold values that have no text; write a function of the package that makes one
	//
	//lockmw:lock {r}
	E2(ctx context.Context, r io.Reader) error
	// want 17: f is a func(), which has no text
	//
	//lockmw:lock {f}
	E3(ctx context.Context, f func()) error
	// want 17: p is a pointer to a pointer (**string)
	//
	//lockmw:lock {p}
	E4(ctx context.Context, p **string) error
	// want 19: *url.URL has no field or method "host"; did you mean "Host"?
	//
	//lockmw:lock {u.host}
	E5(ctx context.Context, u *url.URL) error
	// want 17: region is no parameter of F1, but of the package: a key is made of what a call has; write a function of the package that returns it
	//
	//lockmw:lock {region}:{id}
	F1(ctx context.Context, id string) error
	// want 17: tenant is a function: call it, as in {tenant(ctx)}
	//
	//lockmw:lock {tenant}
	F2(ctx context.Context, id string) error
	// want 17: the package has no function "tenent"; did you mean "tenant"?
	//
	//lockmw:lock {tenent(ctx)}
	F3(ctx context.Context, id string) error
	// want 17: tenant takes 1 argument, not 0
	//
	//lockmw:lock {tenant()}
	F4(ctx context.Context, id string) error
	// want 24: tenant takes a context.Context here, and id is a string
	//
	//lockmw:lock {tenant(id)}
	F5(ctx context.Context, id string) error
	// want 17: generic is generic; write one that is not and calls it
	//
	//lockmw:lock {generic(id)}
	F6(ctx context.Context, id string) error
	// want 17: variadic takes a variable number of arguments; write one that does not and calls it
	//
	//lockmw:lock {variadic(id)}
	F7(ctx context.Context, id string) error
	// want 17: none must return a value, or a value and an error
	// want 27: two must return a value, or a value and an error
	//
	//lockmw:lock {none(id)}{two(id)}
	F8(ctx context.Context, id string) error
	// want 17: weight(id) is a float64: 0.1+0.2 and 0.3 would be two locks; take an integer or a text
	//
	//lockmw:lock {weight(id)}
	F9(ctx context.Context, id string) error
	// want 17: region is no function
	//
	//lockmw:lock {region(id)}
	G1(ctx context.Context, id string) error
	// want 17: len is built into Go; only functions of the package are called in keys
	//
	//lockmw:lock {len(id)}
	G2(ctx context.Context, id string) error
	// want 17: the package has no function "unknown"
	//
	//lockmw:lock {unknown(id)}
	G3(ctx context.Context, id string) error
	// want 17: url is a package: only functions of this package are called in keys
	//
	//lockmw:lock {url.PathEscape(id)}
	G4(ctx context.Context, id string) error
	// want 17: url is a package: only functions of this package are called in keys
	//
	//lockmw:lock {url.PathEscape()}
	G5(ctx context.Context, id string) error
	// want 27: url is a package: only functions of this package are called in keys
	//
	//lockmw:lock {id}:{text(url.PathEscape)}
	G6(ctx context.Context, id string) error
	// want 21: *Order has no field or method "Id"; did you mean "ID"?
	//
	//lockmw:lock {url.Id}
	G7(ctx context.Context, url *Order) error
	// want 17: {param.id} is for requests; the key of a method names its parameters: id
	//
	//lockmw:lock {param.id}
	H1(ctx context.Context, id string) error
	// want 17: H2 has no parameter "id": its parameter of type string has no name; give it one
	//
	//lockmw:lock {id}
	H2(context.Context, string) error
	// want 17: {params} are all parameters, of which one is no key; name the parameters one by one: order is a struct (Order); take a field of it: ID, Total, Customer, Lines, At, secret
	//
	//lockmw:lock {params}
	H3(ctx context.Context, id string, order Order) error
	// want 17: H4 has no parameters but the context; write {method} if all calls are to take one lock
	//
	//lockmw:lock {params}
	H4(ctx context.Context) error
	// want 17: {params} are all parameters: its parameter of type string has no name; give it one
	//
	//lockmw:lock {params}
	H5(context.Context, string) error
	// want 17: {params} are all parameters, of which one is no key; name the parameters one by one: ids is a list ([]string); write {ids...} for a key of each element
	//
	//lockmw:lock {params}
	H8(ctx context.Context, ids []string) error
	// want 17: {method} is not the parameter method; call that something else
	//
	//lockmw:lock {method}
	H6(ctx context.Context, method string) error
	// want 17: receipt is a result of H7, which is not known before the call
	//
	//lockmw:lock {receipt}
	H7(ctx context.Context, id string) (receipt string, err error)
	// want 17: '?' does nothing: n is never missing, since 0 and false are values
	//
	//lockmw:lock {n?}
	I1(ctx context.Context, n int) error
	// want 17: |uuid of n, whose type is int: no call would have a key
	//
	//lockmw:lock {n|uuid}
	I2(ctx context.Context, n int) error
	// want 24: two lists in one key: it would be a key for each pair; write two keys
	//
	//lockmw:lock {a...}:{b...}
	I3(ctx context.Context, a, b []string) error
	// want 17: I4 has no parameter "nobody"; it has none but the context
	//
	//lockmw:lock {nobody.ID}
	I4(ctx context.Context) error
	// want 17: |int of yes, whose type is bool: no call would have a key
	//
	//lockmw:lock {yes|int}
	I5(ctx context.Context, yes bool) error
	// want 17: |uuid of n, whose type is uint8: no call would have a key
	//
	//lockmw:lock {n|lower|uuid}
	I6(ctx context.Context, n uint8) error
}

type Repo[K comparable, V any] interface {
	// want 17: id has the type parameter K, which may be a type without a text; constrain it to some that have one, as in ~string | ~int64
	//
	//lockmw:lock {id}
	Save(ctx context.Context, id K, v V) error
}

type Stock struct{ Region string }

// want 16: Move has no parameter "stock"; it has s
//
//lockmw:lock {stock.Region}
func (s *Stock) Move(ctx context.Context) error { return nil }

// A Code has methods that only look like texts.
type Code [4]byte

func (Code) String() (string, error)         { return "", nil }
func (Code) MarshalText(int) ([]byte, error) { return nil, nil }

type Day struct{ time.Time }

type Codes interface {
	// want 17: day is a time.Time, which has many texts for one instant; write a function of the package that says which part counts, as in {day(day)}
	//lockmw:lock {day}
	Open(ctx context.Context, day Day) error
	// want 17: code is a list (Code); write {code...} for a key of each element
	//lockmw:lock {code}
	Use(ctx context.Context, code Code) error
}

type Basket struct{ Lines []*Line }

func (b *Basket) All() []*Line { return b.Lines }

type Elements interface {
	// want 17: an element of lines is a *Line; write a function of the package that returns a list of texts, as in {texts(lines)...}
	//lockmw:lock {lines...}
	E1(ctx context.Context, lines []*Line) error
	// want 17: an element of b.All() is a *Line; write a function of the package that returns a list of texts, as in {texts(…)...}
	//lockmw:lock {b.All()...}
	E2(ctx context.Context, b *Basket) error
	// want 27: '...' ends a placeholder; write a function of the package that takes what is meant of each element, as in {texts(b.Lines)...}
	//lockmw:lock {b.Lines....SKU}
	E3(ctx context.Context, b *Basket) error
	// want 25: '...' ends a placeholder; write a function of the package that takes what is meant of each element, as in {texts(lines)...}
	//lockmw:lock {lines...SKU}
	E4(ctx context.Context, lines []*Line) error
	// want 25: b.Lines is a list ([]*Line); write a function of the package that returns a list of texts, as in {texts(b.Lines)...}
	//lockmw:lock {b.Lines.SKU...}
	E5(ctx context.Context, b *Basket) error
	// want 23: no index in a key: write a function of the package, or {list...} for a key of each element
	//lockmw:lock {lines.*.SKU}
	E6(ctx context.Context, lines []*Line) error
	// want 17: an element of lines is a *Line; write a function of the package that returns a list of texts, as in {texts(lines)...}
	//lockmw:lock {lines...}.SKU
	E7(ctx context.Context, lines []*Line) error
}

type Visit struct {
	At    time.Time
	Guest func() string
}

// A Hash is a text: []uint8 is []byte.
type Hash [4]byte

func (Hash) MarshalText() ([]uint8, error) { return nil, nil }

type Visits interface {
	// want 22: String of a time.Time has many texts for one instant; write a function of the package that says which part counts, as in {day(v.At)}
	//lockmw:lock {v.At.String()}
	V1(ctx context.Context, v *Visit) error
	// want 17: guest is no function of the package; write one that takes guest and calls it
	//lockmw:lock {guest(ctx)}
	V2(ctx context.Context, guest func(context.Context) string) error
	//lockmw:lock {hash}:{v.At.Unix()}
	V4(ctx context.Context, hash Hash, v Visit) error
}
