//go:build locktest_tagged

// Package tagged has a directive in a file of one build.
package tagged

import "context"

//lockmw:lock {idd} prefix=order:
func Pay(ctx context.Context, id string) error { return ctx.Err() }
