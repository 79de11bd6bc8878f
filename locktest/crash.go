package locktest

import (
	"testing"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// Crash has the process of the code under test die, as all others see it once the TTLs of its locks have passed: whatever l holds is taken
// away, and what the work under these locks returns is neither kept nor given to anybody. The intent of work by lockmw.Do with
// Crash: lockmw.Uncertain stays. So whoever asks next gets lockmw.ErrUncertain, and from a middleware or an interceptor called Idempotent the
// code IDEMPOTENCY_UNCERTAIN, and the work is not done again. With lockmw.RunAgain, and under a plain lock, the next one does it.
//
//	locktest.Crash(t, locks) // in the handler: it has charged the card, and its process dies
//
// Call it where the process is to die: in the handler or the function itself, or elsewhere while that is at work. It needs no key, since those of
// Idempotent are hashes.
//
// Unlike in a dead process the work goes on. When Crash returns, the contexts of its leases have ended, with the cause lockmw.ErrLost unless the
// policy's MaxHold has ended them before. Its releases change nothing and return lockmw.ErrLost, and its client may be told LOCK_LOST, where a
// real one would hear nothing. Answers that were kept before are there still.
//
// Calls that wait stand for other processes. They keep their places, and the first finds the lock free within its retry interval. But calls of Do
// for the same answer wait until the function that was at work has returned: have it return before the next request.
//
// It may be called from any goroutine, also while Redis is down for the code under test. It fails the test if l holds no lock, and if l is not
// from New.
func Crash(t testing.TB, l *lockmw.Locker) {
	t.Helper()
	s := stageOf(t, "Crash", l)
	if !seam.Crash(l, func(key string) { s.forget(key, answers) }) {
		t.Fatalf("locktest: Crash: the code under test holds no lock, so nothing of its work is under way")
	}
}

// Uncertain returns the work of lockmw.Do and of Idempotent that was begun with Crash: lockmw.Uncertain and has neither an answer nor anybody
// who is at it, sorted by key, as Redis has it at this moment: what Crash has left, a panic, or a function that does not know itself. Each
// has the key and the id for lockmw.Locker.Resolve:
//
//	for _, unknown := range locktest.Uncertain(t, locks) {
//		if err := locks.Resolve(ctx, unknown.Key, unknown.ID, lockmw.Again); err != nil {
//			t.Error(err)
//		}
//	}
//
// After a test it is empty, unless somebody has to look what was done. It may be called from any goroutine, also while Redis is down for the code
// under test. It fails the test if l is not from New.
func Uncertain(t testing.TB, l *lockmw.Locker) []*lockmw.UncertainError {
	t.Helper()
	s := stageOf(t, "Uncertain", l)
	infos, err := s.infos(answers)
	if err != nil {
		t.Fatalf("locktest: Uncertain: %v", err)
	}
	var unknown []*lockmw.UncertainError
	for _, info := range infos {
		if a := info.Answer; a != nil && a.State == lockmw.AnswerUncertain {
			unknown = append(unknown, &lockmw.UncertainError{Key: info.Key, ID: a.Work, Since: a.Since})
		}
	}
	return unknown
}
