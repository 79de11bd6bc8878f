//go:build lockgen_other

package tags

import "context"

type Tagged interface {
	//lockmw:lock other:{id}
	Do(ctx context.Context, id string) error
}
