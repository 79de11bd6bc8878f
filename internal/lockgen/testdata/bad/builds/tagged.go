//go:build !lockgen_other

package builds

import "context"

// want 1: Do is in other builds than its type Stock: a decorator could not be in both; move the method, or the type
//
//lockmw:lock {id}
func (*Stock) Do(ctx context.Context, id string) error { return nil }
