// Package tags has directives in files that are not in every build.
package tags

import "context"

type Always interface {
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}
