package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// holding is about one token that has or has not got the lock.
var holding = []test{
	{"AFreeLockIsGranted", aFreeLockIsGranted},
	{"TheLockIsAPlainKeyThatHoldsTheToken", theLockIsAPlainKey},
	{"AHeldLockIsNotGrantedToAnother", aHeldLockIsNotGranted},
	{"ARefusedTryLeavesNothing", aRefusedTryLeavesNothing},
	{"ALastThatNeverWaitedLeavesNothing", aLastThatNeverWaitedLeavesNothing},
	{"AskingAgainIsGrantedAgainWithTheFullTTL", askingAgainIsGrantedAgain},
	{"ASecondReleaseChangesNothing", aSecondReleaseChangesNothing},
	{"OnlyTheWholeTokenReleases", onlyTheWholeTokenReleases},
	{"OnlyTheWholeTokenRenews", onlyTheWholeTokenRenews},
	{"RenewRestoresTheFullTTL", renewRestoresTheFullTTL},
	{"RenewNeverCreatesAKey", renewNeverCreatesAKey},
	{"RenewAnswersForEachOfABatch", renewAnswersForEachOfABatch},
	{"RenewOfNothingReturns", renewOfNothingReturns},
	{"AnExpiredLockIsGrantedToAnother", anExpiredLockIsGranted},
	{"ALostLockIsNeitherRenewedNorReleased", aLostLockIsNeitherRenewedNorReleased},
	{"NothingStaysBehindARelease", nothingStaysBehindARelease},
	{"OneOfManyAtOnceIsGranted", oneOfManyAtOnceIsGranted},
}

func aFreeLockIsGranted(w *world) {
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		p := w.open()
		r := p.ref(long)
		p.mustGet(r, join)
		w.mustHold(r.Token)
		p.release(r, false, store.Freed)
	}
}

func theLockIsAPlainKey(w *world) {
	r := w.open().take(long)
	w.mustHold(r.Token) // on the last node too
	w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
		got, err := node.Get(ctx, key).Result()
		if !strings.HasPrefix(got, r.Token+":") {
			w.Errorf("GET = %q, want the token %q and a fence", got, r.Token)
		}
		return err
	})
	if left := w.left(); left <= long-timeout || left > long {
		w.Errorf("PTTL = %v, want nearly %v", left, long)
	}
}

func aHeldLockIsNotGranted(w *world) {
	holder := w.open()
	r := holder.take(long)
	for _, p := range []*process{w.open(), holder} {
		a := p.mustNotGet(p.ref(long), store.Try)
		if a.Left <= long-timeout || a.Left > long {
			w.Errorf("Left = %v, want nearly %v", a.Left, long)
		}
		if a.Fence != 0 {
			w.Errorf("Fence = %d without a grant, want 0", a.Fence)
		}
	}
	w.mustHold(r.Token)
}

func aRefusedTryLeavesNothing(w *world) { refusedLeavesNothing(w, store.Try) }

func aLastThatNeverWaitedLeavesNothing(w *world) { refusedLeavesNothing(w, store.Last) }

func refusedLeavesNothing(w *world, join store.Join) {
	holder, p := w.open(), w.open()
	r := holder.take(long)
	before := len(w.keys())
	p.mustNotGet(p.ref(long), join)
	if got := len(w.keys()); got != before {
		w.Errorf("%d keys after the refusal, want %d as before: %v", got, before, w.keys())
	}
	holder.release(r, false, store.Freed)
	w.mustBeEmpty("the release")
}

func askingAgainIsGrantedAgain(w *world) {
	p := w.open()
	r := p.ref(long)
	fence := p.mustGet(r, store.Try).Fence
	for i, join := range []store.Join{store.Try, store.Wait, store.Last} {
		w.shorten()
		a := p.mustGet(r, join)
		if a.Fence < fence || i > 0 && a.Fence != fence {
			w.Errorf("Acquire(%s) again: fence %d, want %d as before, or once a higher one", joins[join], a.Fence, fence)
		}
		fence = a.Fence
		w.lasts(long, "Acquire("+joins[join]+") again")
	}
	w.mustHold(r.Token)
	p.release(r, false, store.Freed)
	w.mustBeEmpty("the release")
}

// shorten lets most of the lock's TTL pass.
func (w *world) shorten() {
	w.Helper()
	w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
		return node.PExpire(ctx, key, long/2).Err()
	})
}

func aSecondReleaseChangesNothing(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	p.release(r, false, store.Freed)
	p.release(r, false, store.NotHeld)
	p.release(r, true, store.NotHeld)
	w.mustBeEmpty("the releases")

	theirs := other.take(long)
	p.release(r, false, store.NotHeld)
	p.release(r, true, store.NotHeld)
	w.mustHold(theirs.Token)
}

// forgeries are tokens that are nearly r's.
func forgeries(r store.Ref) []store.Ref {
	var all []store.Ref
	for _, token := range []string{
		"", r.Token[:len(r.Token)-1], r.Token[1:], r.Token + "0", r.Token + "\x00", r.Token + "\n",
		" " + r.Token, strings.ToUpper(r.Token), "*", r.Token[:len(r.Token)/2],
	} {
		forged := r
		forged.Token = token
		all = append(all, forged)
	}
	return all
}

func onlyTheWholeTokenReleases(w *world) {
	p := w.open()
	r := p.take(long)
	for _, forged := range forgeries(r) {
		p.release(forged, false, store.NotHeld)
		p.release(forged, true, store.NotHeld)
	}
	w.mustHold(r.Token)
	p.release(r, false, store.Freed)
}

func onlyTheWholeTokenRenews(w *world) {
	p := w.open()
	r := p.take(long)
	for _, forged := range forgeries(r) {
		forged.TTL = 2 * long
		if p.renew(forged) {
			w.Errorf("Renew with the token %q of a lock held by %q = true, want false", forged.Token, r.Token)
		}
	}
	if left := w.left(); left > long {
		w.Errorf("PTTL = %v, want at most %v", left, long)
	}
}

func renewRestoresTheFullTTL(w *world) {
	p := w.open()
	r := p.take(long)
	for range 2 { // twice: asked again, it answers the same
		w.shorten()
		if !p.renew(r) {
			w.Error("Renew of a held lock = false, want true")
		}
		w.lasts(long, "Renew")
	}
	w.mustHold(r.Token)
	p.release(r, false, store.Freed)
	w.mustBeEmpty("the release")
}

func renewNeverCreatesAKey(w *world) {
	p := w.open()
	released := p.take(long)
	p.release(released, false, store.Freed)
	expired := p.take(short)
	w.awaitExpiry()
	w.wipe() // what an expired lock leaves for a second is not the renewal's
	for name, r := range map[string]store.Ref{"released": released, "expired": expired, "never held": p.ref(long)} {
		for range 2 {
			if p.renew(r) {
				w.Errorf("Renew of a lock that was %s = true, want false", name)
			}
		}
		w.mustBeEmpty("the renewal of a lock that was " + name)
	}
}

func renewAnswersForEachOfABatch(w *world) {
	const n = 30
	p := w.open()
	batch := make([]store.Renewal, n)
	for i := range batch {
		batch[i].Ref = store.Ref{Key: fmt.Sprint("lock ", i), Token: p.NewToken(""), TTL: long}
		if i%3 != 0 {
			p.mustGet(batch[i].Ref, store.Try)
		}
		if i%3 == 2 {
			batch[i].Token = p.NewToken("") // another's
		}
	}
	for range 2 {
		p.renewAll(batch)
		for i, r := range batch {
			if want := i%3 == 1; r.Held != want || r.Err != nil {
				w.Errorf("renewal %d = %v, %v, want %v, nil", i, r.Held, r.Err, want)
			}
		}
	}
}

func renewOfNothingReturns(w *world) {
	w.open().renewAll(nil)
	w.mustBeEmpty("a renewal of nothing")
}

func anExpiredLockIsGranted(w *world) {
	p, other := w.open(), w.open()
	p.take(short)
	w.awaitExpiry()
	r := other.take(long)
	w.mustHold(r.Token)
}

func aLostLockIsNeitherRenewedNorReleased(w *world) {
	p, other := w.open(), w.open()
	lost := p.take(short)
	w.awaitExpiry()
	r := other.take(long)
	if p.renew(lost) {
		w.Error("Renew of a lost lock = true, want false")
	}
	p.release(lost, false, store.NotHeld)
	w.mustHold(r.Token)

	other.release(r, false, store.Freed)
	if p.renew(lost) {
		w.Error("Renew of a lost lock that is free = true, want false")
	}
	w.mustHold("")
}

func nothingStaysBehindARelease(w *world) {
	p := w.open()
	for range 50 {
		p.release(p.take(long), false, store.Freed)
		w.mustBeEmpty("a release")
		p.release(p.take(long), true, store.Freed)
		w.mustBeEmpty("a release with leave")
	}
}

func oneOfManyAtOnceIsGranted(w *world) {
	processes := []*process{w.open(), w.open()}
	for range 10 {
		var (
			mu      sync.Mutex
			granted []store.Ref
			wg      sync.WaitGroup
		)
		end := time.Now().Add(timeout)
		for i := range 16 {
			p := processes[i%2]
			wg.Go(func() {
				r := p.ref(long)
				a, err := p.Acquire(w.Context(), store.Request{Ref: r, Until: soon()})
				for w.tooLate(err) && time.Now().Before(end) {
					r = p.ref(long) // what gives back the last attempt is on its way
					a, err = p.Acquire(w.Context(), store.Request{Ref: r, Until: soon()})
				}
				if err != nil {
					w.Errorf("Acquire: %v", err)
				}
				if a.Granted {
					mu.Lock()
					granted = append(granted, r)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		// A quorum may split its votes, so that nobody has the majority.
		if len(granted) > 1 || len(granted) == 0 && len(w.keyspace.Nodes) == 1 {
			w.Fatalf("%d of 16 were granted, want one", len(granted))
		}
		for _, r := range granted {
			processes[0].release(r, false, store.Freed)
		}
	}
}
