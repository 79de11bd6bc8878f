// Package names has names that generated code needs.
package names

import "context"

type Orders interface { // want 6: the decorator of Orders is to be called LockOrders, and that name is taken (line 11 of testdata/bad/names/names.go)
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}

func LockOrders() {}

type stock interface {
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}

type Stock interface { // want 6: the decorators of stock and of Stock are both to be called lockingStock; rename one
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}

type nil int // want 6: the package declares "nil", which generated code takes for Go's own; call it something else

type Typed[len, error any] interface { // want 17: Typed has a type parameter "error", which generated code takes for Go's own; call it something else
	//lockmw:lock {id}
	Do(ctx context.Context, id string, l len, e error) (error, failure)
}

type failure = error
