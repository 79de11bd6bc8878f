// Package foreign embeds a method whose lock another package has.
package foreign

import (
	"context"
	"testing"

	"github.com/lockmw/kit/internal/lockgen/testdata/golden/embedding"
)

// want 6: Docs embeds embedding.Reader, whose method Read has a lock that only embedding.LockReader takes; write the method out here, with a directive of its own
// want 6: Docs embeds the method private, which package testing keeps to itself: no decorator can have it
type Docs interface {
	embedding.Reader
	testing.TB
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}
