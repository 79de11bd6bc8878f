// Package functions has directives on functions.
package functions

import "context"

// Nightly is run by every instance; the lock lets one of them.
//
//lockmw:lock nightly-report min_hold=100ms max_hold=10m ttl=1m
func Nightly(ctx context.Context) error { return ctx.Err() }

//lockmw:lock {from}-{to} prefix=transfer:
func Transfer(ctx context.Context, from, to string, cents uint64) (left, right int64, err error) {
	return -int64(cents), int64(cents), ctx.Err()
}

//lockmw:lock tag:{tags...}
func Tag(ctx context.Context, tags ...string) error { return ctx.Err() }

//lockmw:lock {id}
func unexported(ctx context.Context, id int8) error { return ctx.Err() }

// Last has its context at the end, and parameters without a name in the key.
//
//lockmw:lock {id}
func Last(id string, _ float64, ctx context.Context) error { return ctx.Err() }

// Run is here so that unexported is used.
func Run(ctx context.Context) error { return unexported(ctx, 1) }
