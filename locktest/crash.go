package locktest

import (
	"testing"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// Crash makes the process of the code under test die, as all others see it once the TTLs of its locks have passed. All locks that l holds
// are taken away, and what the work under these locks returns is not kept or given to anybody. The intent of work by lockmw.Do with Crash:
// lockmw.Uncertain stays. So the next call gets lockmw.ErrUncertain, and the work is not done again. A middleware or an interceptor called
// Idempotent answers with the code IDEMPOTENCY_UNCERTAIN. With lockmw.RunAgain, and under a plain lock, the next call does the work.
//
//	locktest.Crash(t, locks) // in the handler: it has charged the card, and its process dies
//
// Call Crash where the process is to die: in the handler or the function itself, or elsewhere while that is at work. It needs no key,
// because the keys of Idempotent are hashes.
//
// Unlike in a dead process, the work goes on. When Crash returns, the contexts of its leases have ended. Their cause is lockmw.ErrLost,
// unless the policy's MaxHold has ended them before. Its releases change nothing and return lockmw.ErrLost. Its client may be told
// LOCK_LOST, where the client of a dead process would hear nothing. Answers that were kept before are still there.
//
// Calls that wait act as other processes. They keep their places, and the first finds the lock free within its retry interval. But calls of
// Do for the same answer wait until the function that was at work has returned. So let it return before you send the next request.
//
// Crash may be called from any goroutine, also while Redis is down for the code under test. It fails the test if l holds no lock, and if l
// is not from New.
func Crash(t testing.TB, l *lockmw.Locker) {
	t.Helper()
	s := stageOf(t, "Crash", l)
	if !seam.Crash(l, func(key string) { s.forget(key, answers) }) {
		t.Fatalf("locktest: Crash: the code under test holds no lock, so nothing of its work is under way")
	}
}

// Uncertain returns the uncertain work, sorted by key, as Redis has it at this moment. This is work of lockmw.Do and of Idempotent that was
// begun with Crash: lockmw.Uncertain, has no answer, and has nobody at work. It is left by Crash, by a panic, or by a function that does
// not know itself whether its work was done. Each has the key and the id for lockmw.Locker.Resolve:
//
//	for _, unknown := range locktest.Uncertain(t, locks) {
//		if err := locks.Resolve(ctx, unknown.Key, unknown.ID, lockmw.Again); err != nil {
//			t.Error(err)
//		}
//	}
//
// After a test it is empty, unless somebody has to find out what was done. Uncertain may be called from any goroutine, also while Redis is
// down for the code under test. It fails the test if l is not from New.
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
