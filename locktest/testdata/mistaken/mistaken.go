// Package mistaken has a directive.
package mistaken

import "context"

//lockmw:lock {idd} prefix=order:
func Pay(ctx context.Context, id string) error { return ctx.Err() }
