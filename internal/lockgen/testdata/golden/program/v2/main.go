// Program's lock is called after the folder above that of its major version.
package main

import "context"

//lockmw:lock {method}
func Report(ctx context.Context) error { return ctx.Err() }

func main() {}
