// Package taken has a file where the generated one would be.
package taken

import "context"

type Orders interface {
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}
