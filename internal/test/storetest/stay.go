package storetest

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// stays is about locks that stay taken for a while after their release.
var stays = []test{
	{"AReleaseThatStaysKeepsTheLockTaken", staysTaken},
	{"AReleaseThatStaysEndsByItself", stayEndsByItself},
	{"AReleaseThatStaysBySomeoneElseChangesNothing", stayBySomeoneElse},
	{"ARenewalBehindAReleaseThatStaysChangesNothing", renewalBehindAStay},
	{"AReleaseThatStaysOfOneReaderLeavesOthersAsTheyAre", stayOfOneReader},
	{"AKeyThatOnlyStaysTakenIsToldAsACoolDown", coolDownIsTold},
	{"AKeyCoolsDownOnceAllItsReadersHaveDone", coolDownOfReaders},
}

// leasts is about grants that last at least so long.
var leasts = []test{
	{"AHandOverLastsAtLeastThatLong", aHandOverLastsAtLeastThatLong},
	{"AReleaseThatStaysKeepsThePlacesInTheQueue", stayKeepsThePlaces},
	{"WhoeverWaitsIsToldOfACoolDown", coolDownIsToldToWaiters},
	{"NothingStaysForLongBehindAReleaseThatStays", nothingStaysForLongBehindAStay},
	{"AReleaseThatStaysOfAPermitLeavesOthersAsTheyAre", stayOfAPermit},
}

func staysTaken(w *world) {
	p, other := w.open(), w.open()
	for _, kind := range []store.Kind{writer, reader} {
		r := p.takeAs(kind, long/4)
		for range 2 { // asked again, it says the same
			p.releaseStaying(r, long/2, store.Freed)
			w.lasts(long/2, "Release that stays")
			other.excluded(writer)
			w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
				if got, err := node.SetNX(ctx, key, "theirs", long).Result(); got || err != nil {
					w.Errorf("SET NX = %v, %v, want a refusal", got, err)
				}
				return nil
			})
		}
		p.release(r, false, store.Freed) // it has it until then
		w.mustBeEmpty("the release")
	}
}

func stayEndsByItself(w *world) {
	p, other := w.open(), w.open()
	for _, kind := range []store.Kind{writer, reader} {
		r := p.takeAs(kind, long)
		p.releaseStaying(r, short, store.Freed)
		w.outlast(short)
		if p.renew(r) {
			w.Error("Renew after the lock stayed taken = true, want false")
		}
		p.releaseStaying(r, long, store.NotHeld)
		next := other.take(long)
		w.mustHold(next.Token)
		other.release(next, false, store.Freed)
		w.mustBeEmpty("the next one's release")

		p.releaseStaying(p.takeAs(kind, long), short, store.Freed)
		w.outlast(short + grace)
		w.mustBeEmpty("the lock had stayed taken")
	}
}

func stayBySomeoneElse(w *world) {
	p, other := w.open(), w.open()
	other.releaseStaying(other.ref(long), long, store.NotHeld)
	w.mustBeEmpty("Release that stays of a lock that nobody holds")
	for _, kind := range []store.Kind{writer, reader} {
		r := p.takeAs(kind, long/2)
		others := append(forgeries(r), other.as(writer, long), other.as(reader, long))
		for _, stranger := range others {
			other.releaseStaying(stranger, short, store.NotHeld)
			other.releaseStaying(stranger, long, store.NotHeld)
		}
		w.lasts(long/2, "strangers' Release that stays")
		p.release(r, false, store.Freed)
		w.mustBeEmpty("the release")
	}
}

// A renewal may be on its way for longer than it is waited for, and come behind the release.
func renewalBehindAStay(w *world) {
	p := w.open()
	for _, kind := range []store.Kind{writer, reader} {
		r := p.takeAs(kind, long)
		p.releaseStaying(r, long/2, store.Freed)
		if p.renew(r) {
			w.Error("Renew while the lock only stays taken = true, want false")
		}
		w.lasts(long/2, "the renewal")
		p.release(r, false, store.Freed)
		w.mustBeEmpty("the release")
	}
}

func stayOfOneReader(w *world) {
	p, other := w.open(), w.open()
	dies, lives := other.takeAs(reader, short), other.takeAs(reader, long/2)
	stays := p.takeAs(reader, long)
	p.releaseStaying(stays, long/4, store.Freed)
	w.lasts(long/2, "Release that stays of the one with the most time")
	p.releaseStaying(stays, long, store.Freed)
	w.lasts(long, "Release that stays with more time than all")
	w.outlast(short)
	if other.renew(dies) || !other.renew(lives) {
		w.Error("Release that stays changed the leases of others")
	}
	other.release(lives, false, store.Freed)
	other.excluded(writer)
	p.release(stays, false, store.Freed)
	w.mustBeEmpty("the releases")
}

// coolsDown fails the test unless a refusal, and Inspect of each holder, say so or, without want, deny it.
func (p *process) coolsDown(kind store.Kind, join store.Join, want bool, when string) {
	p.Helper()
	asks := p.as(kind, long)
	if got := p.mustNotGet(asks, join).CoolingDown; got != want {
		p.Errorf("%s: CoolingDown of a refusal (%s) = %v, want %v", when, joins[join], got, want)
	}
	p.release(asks, true, store.NotHeld)
	var info store.Info
	p.insist("Inspect", func() (err error) {
		info, err = p.Inspect(p.Context(), lock)
		return err
	})
	all := len(info.Holders) > 0
	for _, h := range info.Holders {
		all = all && h.CoolingDown && h.Instance != "" && h.Left > 0
	}
	if all != want {
		p.Errorf("%s: Inspect = %+v, want holders that all cool down: %v", when, info, want)
	}
}

// coolDownIsTold: once the work is over, however often that is said, and not of the next holder.
func coolDownIsTold(w *world) {
	p, other := w.open(), w.open()
	for _, kind := range []store.Kind{writer, reader} {
		for range 2 {
			r := p.takeAs(kind, long)
			other.coolsDown(writer, store.Try, false, "while it is held")
			for range 2 {
				p.releaseStaying(r, long/2, store.Freed)
				other.coolsDown(writer, store.Try, true, "once its work is over")
				p.coolsDown(writer, store.Try, true, "asked by the one whose work it was")
			}
			p.release(r, false, store.Freed)
		}
		w.mustBeEmpty("the release")
	}
}

func coolDownOfReaders(w *world) {
	p, other := w.open(), w.open()
	first, second := p.takeAs(reader, long), other.takeAs(reader, long)
	p.releaseStaying(first, 2*long, store.Freed)
	other.coolsDown(writer, store.Try, false, "while one of two is at work")
	other.releaseStaying(second, long, store.Freed)
	other.coolsDown(writer, store.Try, true, "once the work of both is over")
	third := other.takeAs(reader, long)
	other.coolsDown(writer, store.Try, false, "while a third one is at work")
	other.release(third, false, store.Freed)
	other.coolsDown(writer, store.Try, true, "once the third has gone")
	p.release(first, false, store.Freed)
	p.release(second, false, store.Freed)
	w.mustBeEmpty("the releases")
}

// coolDownIsToldToWaiters: to those who come, and to those who wait already.
func coolDownIsToldToWaiters(w *world) {
	p, other := w.open(), w.open()
	for _, kind := range []store.Kind{writer, reader, permit(1)} {
		r := p.takeAs(kind, long)
		waits := other.queue(long)
		if other.mustNotGet(waits, store.Wait).CoolingDown {
			w.Errorf("%+v: the one that waits is told of a cool-down of a lock that is held", kind)
		}
		p.releaseStaying(r, long/2, store.Freed)
		if !other.mustNotGet(waits, store.Wait).CoolingDown {
			w.Errorf("%+v: the one that waits is not told of the cool-down", kind)
		}
		other.coolsDown(writer, store.Wait, true, "one that comes to wait")
		if !other.mustNotGet(waits, store.Last).CoolingDown {
			w.Errorf("%+v: the one that gives up is not told of the cool-down", kind)
		}
		p.release(r, false, store.Freed)
		w.mustBeEmpty("the release")
	}
}

func aHandOverLastsAtLeastThatLong(w *world) {
	holder, e, polls := w.open(), w.open().listen(), w.open()
	for _, kind := range []store.Kind{writer, reader} {
		for _, least := range []time.Duration{short, long / 2, long} {
			for _, by := range []*process{e.process, polls} {
				r := holder.take(long)
				waits := by.as(kind, long)
				waits.Least = least
				by.mustNotGet(waits, store.Wait)
				holder.release(r, false, store.HandedOver)
				w.mustLast(least)
				if by == e.process {
					if g := e.hears(waits); g.Ref.TTL < least || g.Ref.TTL > max(least, firstTTL) {
						w.Errorf("told of a grant for %v, want at least %v and no more than that needs", g.Ref.TTL, least)
					}
				}
				by.mustGet(waits, store.Wait)
				w.lasts(long, "asked again")
				by.release(waits, true, store.Freed)
				w.mustBeEmpty("the release")
			}
		}
	}
}

// mustLast fails the test if the lock ends before least, give or take what has
// passed since.
func (w *world) mustLast(least time.Duration) {
	w.Helper()
	if left := w.left(); left <= least-timeout {
		w.Errorf("PTTL after the hand-over = %v, want about %v at least", left, least)
	}
}

func stayKeepsThePlaces(w *world) {
	p, other := w.open(), w.open()
	for _, kind := range []store.Kind{writer, reader} {
		r := p.takeAs(kind, long)
		first, second := other.queue(long), other.queueAs(reader)
		other.releaseStaying(first, short, store.NotHeld) // it waits
		p.releaseStaying(r, short, store.Freed)
		w.outlast(short)
		other.mustNotGet(second, store.Wait)
		other.mustGet(first, store.Wait)
		w.mustHold(first.Token)
		other.release(first, false, store.HandedOver)
		other.mustGet(second, store.Wait)
		other.release(second, false, store.Freed)
		w.mustBeEmpty("the last release")
	}
}

// nothingStaysForLongBehindAStay: nor of one that had waited.
func nothingStaysForLongBehindAStay(w *world) {
	holder, p := w.open(), w.open()
	for _, kind := range []store.Kind{writer, reader} {
		r, waits := holder.take(long), p.queueAs(kind)
		holder.release(r, false, store.HandedOver)
		p.mustGet(waits, store.Wait)
		p.releaseStaying(waits, short, store.Freed)
		w.outlast(short + grace)
		w.mustBeEmpty("the lock had stayed taken")
	}
}

func stayOfAPermit(w *world) {
	p, other := w.open(), w.open()
	kind := store.Kind{Permits: 2}
	dies, stays := other.takeAs(kind, short), p.takeAs(kind, long/4)
	p.releaseStaying(stays, long/2, store.Freed)
	w.outlast(short)
	if other.renew(dies) {
		w.Error("Release that stays prolonged the lease of another")
	}
	lives := other.takeAs(kind, long/4)
	other.excluded(kind) // the one that stays still counts
	w.lasts(long/2, "the one that stays ends last")
	p.releaseStaying(stays, short, store.Freed)
	w.lasts(long/4, "the other one ends last")
	w.outlast(short)
	other.takeAs(kind, long)
	if !other.renew(lives) {
		w.Error("Release that stays ended the lease of another")
	}
}

// aPassIsForTheLeastTime where next gets the lock later, by a hand-over that
// nobody takes note of.
func aPassIsForTheLeastTime(w *world) {
	const least = 2*timeout + firstTTL // more than lasts forgives
	p, e := w.open(), w.open().listen()
	r, next := p.take(long), p.ref(long)
	next.Least = least
	p.passOn(r, next, store.Place{}, true)
	w.mustHold(next.Token)
	w.lasts(long, "passed on at once")

	r, next = next, p.ref(long)
	next.Least = least
	first := e.queue(long)
	p.passOn(r, next, store.Place{}, false)
	e.hears(first)
	e.release(first, false, store.HandedOver)
	w.mustHold(next.Token)
	w.lasts(least, "handed over")
	p.release(next, false, store.Freed)
	w.mustBeEmpty("the last release")
}
