// Package collisions has names that generated code would like to have, and calls that
// need a variable.
package collisions

import (
	"context"

	"github.com/lockmw/kit/lockmw"
)

type lock struct{ ID string }

type tune string

var locks = lockmw.Policy{Prefix: "p:", Retries: 3}

// A function's signature stands where the decorator's own parameters are known.
//
//lockmw:lock {l.ID}:{t} policy=locks
func Report(ctx context.Context, l lock, t tune) error { return ctx.Err() }

type Tenant struct{ name string }

// Name needs a variable: the result of a call is none.
func (t *Tenant) Name() string { return t.name }

func tenant(context.Context) Tenant { return Tenant{"x"} }

type Orders interface {
	error
	//lockmw:lock {id} policy=locks retry_forever=false
	Pay(ctx context.Context, id string) error
	//lockmw:lock {tenant(ctx).Name()}
	Close(ctx context.Context) error
	// A line's end in the key is none of the comment that shows it.
	//
	//lockmw:lock "a\n}}{id}"
	Line(ctx context.Context, id string) error
}

type Repo[K, d any] interface {
	//lockmw:lock {K}
	Get(ctx context.Context, K string) (d, error)
}
