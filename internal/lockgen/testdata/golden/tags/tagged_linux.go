package tags

import "context"

//lockmw:lock {id}
func OnLinux(ctx context.Context, id string) error { return ctx.Err() }
