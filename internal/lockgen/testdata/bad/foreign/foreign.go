// Package foreign embeds methods whose locks the decorator would not take.
package foreign

import (
	"context"
	"testing"

	"github.com/lockmw/kit/internal/lockgen/testdata/golden/concrete"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/embedding"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/foreign/partner"
)

// want 6: Docs embeds embedding.Reader, whose method Read has a lock that only embedding.LockReader takes; write the method out here, with a directive of its own
// want 6: Docs embeds the method private, which package testing keeps to itself: no decorator can have it
type Docs interface {
	embedding.Reader
	testing.TB
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}

// want 6: Shelves embeds concrete.Stock, whose method Add has a lock that only concrete.LockStock takes; write the method out here, with a directive of its own
// want 6: Shelves embeds concrete.Stock, whose method Recount has a lock that only concrete.LockStock takes; write the method out here, with a directive of its own
type Shelves struct{ *concrete.Stock }

//lockmw:lock {id}
func (*Shelves) Sweep(ctx context.Context, id string) error { return ctx.Err() }

type Plain interface {
	Pay(ctx context.Context, id string) error
}

type Careful interface {
	//lockmw:lock {id}
	Pay(ctx context.Context, id string) error
}

// want 6: Both embeds Pay twice, and the lock of one of them is not taken; write the method out here, with a directive of its own
type Both interface {
	Plain
	Careful
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}

// Chosen says itself that its Pay has no lock.
type Chosen interface {
	Plain
	Careful
	Pay(ctx context.Context, id string) error
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}

// want 6: Partner embeds the method Slice, whose signature has partner.hidden, which package partner keeps to itself: no decorator can have it
// want 6: Partner embeds the method Secret, whose signature has secret.Token of github.com/lockmw/kit/internal/lockgen/testdata/golden/foreign/partner/internal/secret, which cannot be imported here: no decorator can have it
// want 6: Partner embeds the method Struct, whose signature has the field count, which package partner keeps to itself: no decorator can have it
type Partner interface {
	partner.Slices
	partner.Secrets
	partner.Structs
	//lockmw:lock {id}
	Do(ctx context.Context, id string) error
}
