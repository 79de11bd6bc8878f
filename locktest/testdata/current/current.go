// Package current has a directive.
package current

import "context"

//lockmw:lock {id} prefix=order:
func Pay(ctx context.Context, id string) error { return ctx.Err() }
