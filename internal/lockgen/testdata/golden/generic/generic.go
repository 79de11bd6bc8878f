// Package generic has directives on generic interfaces and functions.
package generic

import (
	"cmp"
	"context"
)

// ID is what a Repo finds things by.
type ID interface{ ~string | ~int64 }

type Repo[K ID, V any] interface {
	//lockmw:lock {id} prefix=repo:
	Save(ctx context.Context, id K, v V) error
	//lockmw:lock {ids...} prefix=repo:
	Load(ctx context.Context, ids ...K) (map[K]V, error)
}

type Named[N ~string, O cmp.Ordered] interface {
	//lockmw:lock {name}
	Rename(ctx context.Context, name N, rank O) (N, error)
}

// Pair has fields of the type parameters.
type Pair[K ID, V any] struct {
	Key   K
	Value *V
}

//lockmw:lock {pair.Key} name=put
func Put[K ID, V any](ctx context.Context, pair *Pair[K, V]) (old *V, err error) {
	return pair.Value, ctx.Err()
}

// Names has type parameters that are called like what generated code would declare.
type Names[locks ~string, next any, tune comparable] interface {
	//lockmw:lock {id}
	Do(ctx context.Context, id locks, n next) (tune, error)
}

// The same for a function.
//
//lockmw:lock {t}:{p}
func Swap[locks ~string, tune any, lock any, v ~int](ctx context.Context, t locks, u tune, l lock, p *v) (lock, tune, error) {
	return l, u, ctx.Err()
}

// Pointer has a constraint that is an expression, too.
type Pointer[P *int,] interface {
	//lockmw:lock {id}
	Do(ctx context.Context, id string, p P) error
}
