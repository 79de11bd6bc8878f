package lockmw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A bundle is what the lease of several keys has (AcquireAll, in multi.go): the lease of each key. Each lease's context is
// the parent of the next one's, so that all end with the first that is lost.
type bundle struct {
	locker *Locker
	parts  []*Lease
	queued bool // one of the calls for them has waited for its turn

	countedBy *ledger // counts the call while a command for several keys may have left something, see take; nil: none may
}

func (b *bundle) trusted() bool {
	trusted := true
	for _, part := range b.parts {
		trusted = part.Valid() && trusted // each one that has ended is told so
	}
	return trusted
}

// remains is what the first of the parts to end has left.
func (b *bundle) remains(*Lease) (left time.Duration, ok bool) {
	for _, part := range b.parts {
		if its, has := part.has.remains(part); has && (!ok || its < left) {
			left, ok = its, true
		}
	}
	return left, ok
}

func (b *bundle) reliesOn() []*Lease { return b.parts }

// owners returns the leases that have the locks of the parts.
func (b *bundle) owners() []*Lease {
	owners := make([]*Lease, len(b.parts))
	for i, part := range b.parts {
		owners[i] = part.owner()
	}
	return owners
}

// tellReleased tells the observers of the parts that were released.
func (b *bundle) tellReleased() {
	for _, part := range b.parts {
		part.tellReleased()
	}
}

// release gives back all parts at the same time. The error is ErrLost, with their keys, if
// some were lost.
func (b *bundle) release(ctx context.Context, l *Lease) error {
	b.trusted() // parts that are over are told so, with ErrLost, before the context ends
	l.finish()
	errs := b.releaseTogether(ctx)
	err := errors.Join(errs...)
	if !errors.Is(err, ErrLost) {
		return err
	}
	var lost []string
	for i, part := range b.parts {
		if errors.Is(errs[i], ErrLost) {
			lost = append(lost, part.Key())
		}
	}
	return fmt.Errorf("%w: %s", ErrLost, strings.Join(lost, ", "))
}

// releaseTogether gives back the parts, all at the same time, within the time
// that one release has. It returns what came of each.
//
// Each part is released by a goroutine of its own. One command for all keys would not do: a Cluster has the keys on several servers,
// and no command may name keys of several slots. Nor would one exchange with a command for each key, since the releases differ. A
// lock may be passed on to a waiter of this Locker without any command, offered to one by its command, or stay taken for its
// MinHold. A release waits first for the lock's renewal, if that is in flight. Where its reply is lost, it is sent again, after a
// pause and maybe as another command. If one goroutine did all that, a key whose server does not answer would use up the time of the
// others. The commands share the Locker's connections, so those for one server mostly go along in few writes.
func (b *bundle) releaseTogether(ctx context.Context) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBudget)
	defer cancel()
	errs := make([]error, len(b.parts))
	var releases sync.WaitGroup
	for i, part := range b.parts {
		releases.Go(func() { errs[i] = part.releaseWithin(ctx) })
	}
	releases.Wait()
	return errs
}

// keys names the keys of all parts.
func (b *bundle) keys() string {
	names := make([]string, len(b.parts))
	for i, part := range b.parts {
		names[i] = part.Key()
	}
	return strings.Join(names, ", ")
}

// FenceOf returns the fence of one of the lease's keys. key includes the prefix. For a
// lease of one key it is Fence. For a key that is not among the lease's, and for a nil
// Lease, it is 0.
func (l *Lease) FenceOf(key string) int64 {
	if l == nil {
		return 0
	}
	if l.owner() != nil && l.ref.Key == key {
		return l.fence
	}
	for _, part := range l.has.reliesOn() {
		if part.ref.Key == key {
			return part.fence
		}
	}
	return 0
}
