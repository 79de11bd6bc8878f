// Package stale has a directive.
package stale

import "context"

//lockmw:lock {id|lower} prefix=order:
func Pay(ctx context.Context, id string) error { return ctx.Err() }
