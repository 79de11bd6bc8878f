package testenv

import (
	"context"
	"strconv"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// heldFor is how long a Holder has had its lock when somebody is refused: so long that a log, which has milliseconds, tells of it.
const heldFor = 20 * time.Millisecond

// A Holder is another process that has a lock, and is in the way of a test's requests.
type Holder struct {
	Locks *lockmw.Locker

	env  *Env
	note string
	came time.Time // before it had the lock
}

// Another opens the Locker of another process. It notes something else than r's own.
func (r *Env) Another() *Holder {
	r.Helper()
	h := &Holder{env: r, note: secretNote + " of export 7", came: time.Now()}
	h.Locks = r.NewLocker(lockmw.WithNote(func(context.Context) string { return h.note }))
	return h
}

// Take has it take the lock of a key, given with its prefix. It returns when a refusal can tell for how long it has had the lock.
func (h *Holder) Take(key string) *lockmw.Lease {
	h.env.Helper()
	h.came = time.Now()
	lease := h.env.takeBy(h.Locks, key)
	h.Stays()
	return lease
}

// Stays returns when a refusal can tell for how long it has had the lock that it has now.
func (h *Holder) Stays() {
	h.env.Helper()
	since := time.Now()
	h.env.Until("the other process has had its lock for a while", func() bool { return time.Since(since) >= heldFor })
}

// WantTold fails the test unless the event of the last refusal has that code, and names this holder with its note and for how long
// it has had the lock, and unless the one line of a refusal in log says the same.
func (h *Holder) WantTold(log *Journal, code string) {
	h.env.Helper()
	told := h.env.Told(lockmw.EventRefused)
	if len(told) == 0 {
		h.env.Errorf("no event tells of the refusal %s", code)
		return
	}
	last := told[len(told)-1]
	got := last.Holder
	if last.Reason != code || got == nil {
		h.env.Errorf("the event tells of %s and the holder %+v, want %s and that of %s", last.Reason, got, code, h.Locks.Instance())
		return
	}
	most := time.Since(h.came) + time.Second // Redis has a clock of its own
	if got.Instance != h.Locks.Instance() || got.Note != h.note || got.Age < heldFor/2 || got.Age > most {
		h.env.Errorf("the event names %s with the note %q for %v, want %s, %q, %v to %v",
			got.Instance, got.Note, got.Age, h.Locks.Instance(), h.note, heldFor/2, most)
	}
	h.env.Until("the log tells of the refusal", func() bool { return len(log.Lines("lock was refused")) > 0 })
	says := []string{
		"lock was refused", "reason=" + code, "holder=" + h.Locks.Instance(), "holder_note=" + strconv.Quote(h.note),
		"held_for=" + got.Age.Round(time.Millisecond).String(),
	}
	if all := log.Lines("lock was refused"); len(all) != 1 || len(log.Lines(says...)) != 1 {
		h.env.Errorf("the log says %q, want one line with %q", all, says)
	}
}
