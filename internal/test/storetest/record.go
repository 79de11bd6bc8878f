package storetest

import (
	"slices"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// records is about answers that are kept with a release.
var records = []test{
	{"ARecordAnswersWhoHadCome", aRecordAnswersWhoHadCome},
	{"ARecordThatIsRetainedAnswersWhoeverComes", aRetainedRecordAnswersWhoeverComes},
	{"OnlyWhoHoldsKeepsARecord", onlyWhoHoldsKeepsARecord},
	{"ARecordTakesTheCallerOutOfTheQueue", aRecordTakesTheCallerOutOfTheQueue},
	{"ARecordIsKeptWithAHandOver", aRecordIsKeptWithAHandOver},
	{"ARecordIsAnyText", aRecordIsAnyText},
	{"WorkThatWasBegunIsTold", workThatWasBegunIsTold},
	{"WhoBeganKeepsTheAnswer", whoBeganKeepsTheAnswer},
	{"WhoBeganKeepsTheAnswerAfterALoss", whoBeganKeepsTheAnswerAfterALoss},
	{"WorkThatWasNotDoneIsForgotten", workThatWasNotDoneIsForgotten},
	{"WorkIsResolved", workIsResolved},
	{"WorkIsResolvedAsUndone", workIsResolvedAsUndone},
	{"WorkThatWasBegunIsListed", workThatWasBegunIsListed},
}

// recalling asks for the lock, or for a record that answers one who came so long ago.
func (p *process) recalling(r store.Ref, join store.Join, fingerprint string, waited time.Duration) (a store.Answer) {
	p.Helper()
	p.pass(time.Millisecond)
	p.insist("Acquire with Recall", func() (err error) {
		a, err = p.Acquire(p.Context(), store.Request{Ref: r, Join: join, Until: soon(), Recall: &store.Recall{Fingerprint: fingerprint, Waited: waited}})
		return err
	})
	return a
}

// looking looks for a record with the token of a holder.
func (p *process) looking(r store.Ref, fingerprint string, waited time.Duration) *store.Recalled {
	p.Helper()
	p.pass(time.Millisecond)
	var a store.Answer
	p.insist("Recall", func() (err error) {
		a, err = p.Recall(p.Context(), store.Request{Ref: r, Until: soon(), Recall: &store.Recall{Fingerprint: fingerprint, Waited: waited}})
		return err
	})
	if a.Granted || a.Clock == 0 {
		p.Errorf("Recall = %+v, want the clock and no grant", a)
	}
	return a.Recalled
}

// keep gives a lock back with a record.
func (p *process) keep(r store.Ref, record store.Record, want store.Released) {
	p.Helper()
	p.pass(time.Millisecond)
	var got store.Released
	if sure := p.insist("Release with a record", func() (err error) {
		got, _, err = p.Release(p.Context(), store.Give{Ref: r, Record: &record})
		return err
	}); sure && got != want {
		p.Errorf("Release with a record = %v, want %v", got, want)
	}
}

func (w *world) wantRecord(what string, got *store.Recalled, want string) {
	w.Helper()
	switch {
	case got == nil && want != "":
		w.Errorf("%s: no record, want %q", what, want)
	case got != nil && got.Data != want:
		w.Errorf("%s: record %q, want %q", what, got.Data, want)
	}
}

func aRecordAnswersWhoHadCome(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	p.keep(r, store.Record{Fingerprint: "f", Data: "answer"}, store.Freed)
	w.mustHold("")
	w.outlast(short)
	a := other.recalling(other.ref(long), store.Wait, "f", time.Minute)
	w.wantRecord("who came before", a.Recalled, "answer")
	if a.Granted || a.Recalled != nil && (a.Recalled.Fingerprint != "f" || a.Recalled.Made > a.Recalled.Clock || a.Recalled.Until > a.Recalled.Clock || a.Clock != a.Recalled.Clock) {
		w.Errorf("Acquire = %+v, %+v", a, a.Recalled)
	}
	w.mustHold("")
	if a := other.recalling(other.ref(short), store.Try, "f", 0); !a.Granted || a.Recalled != nil {
		w.Errorf("who came later: %+v, want the lock", a)
	}
	w.outlast(2 * short)
	if a := other.recalling(other.ref(short), store.Try, "g", time.Minute); !a.Granted || a.Recalled != nil {
		w.Errorf("who came before for something else: %+v, want the lock", a)
	}
}

func aRetainedRecordAnswersWhoeverComes(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	p.keep(r, store.Record{Fingerprint: "f", Data: "answer", Retain: long}, store.Freed)
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		for _, fingerprint := range []string{"f", "g"} {
			a := other.recalling(other.ref(long), join, fingerprint, 0)
			w.wantRecord("within Retain", a.Recalled, "answer")
			if a.Granted || a.Recalled != nil && (a.Recalled.Fingerprint != "f" || a.Recalled.Until <= a.Recalled.Clock) {
				w.Errorf("Acquire = %+v, %+v", a, a.Recalled)
			}
		}
	}
	w.mustHold("")
	// Who does not ask for it has the lock, and looks for it with that.
	holder := other.take(long)
	w.wantRecord("who holds", other.looking(holder, "f", 0), "answer")
	other.keep(holder, store.Record{Fingerprint: "g", Data: "another", Retain: long}, store.Freed)
	holder = p.take(long)
	w.wantRecord("after another answer", p.looking(holder, "f", 0), "another")
	p.keep(holder, store.Record{Fingerprint: "g", Data: "the last one", Retain: short}, store.Freed)
	holder = p.take(long)
	w.outlast(2 * short)
	w.wantRecord("after Retain", p.looking(holder, "g", 0), "")
	p.release(holder, false, store.Freed)
}

func onlyWhoHoldsKeepsARecord(w *world) {
	p, other := w.open(), w.open()
	record := store.Record{Fingerprint: "f", Data: "answer", Retain: long}
	other.keep(other.ref(long), record, store.NotHeld)
	w.mustBeEmpty("a record of one who does not hold")
	r := p.take(long)
	for _, stranger := range append(forgeries(r), other.ref(long)) {
		other.keep(stranger, record, store.NotHeld)
	}
	w.wantRecord("after strangers", p.looking(r, "f", time.Minute), "")
	w.mustHold(r.Token)
	p.release(r, false, store.Freed)
	late := p.take(short)
	w.outlast(2 * short)
	p.keep(late, record, store.NotHeld)
	w.mustBeEmpty("a record of one whose lock has expired")
}

func aRecordTakesTheCallerOutOfTheQueue(w *world) {
	p, other := w.open(), w.open()
	p.keep(p.take(long), store.Record{Fingerprint: "f", Data: "answer", Retain: long}, store.Freed)
	holder := p.take(long) // it does not want the answer
	waiter := other.queue(long)
	w.wantRecord("who waits", other.recalling(waiter, store.Wait, "f", 0).Recalled, "answer")
	info, err := p.Inspect(p.Context(), lock)
	if err != nil || info.Waiting != 0 || len(info.Holders) != 1 {
		w.Errorf("Inspect = %+v, %v, want the holder and nobody who waits", info, err)
	}
	p.release(holder, false, store.Freed)
	w.mustHold("")
}

func aRecordIsKeptWithAHandOver(w *world) {
	p := w.open()
	r, next := p.take(long), p.ref(long)
	p.pass(time.Millisecond)
	var did store.Released
	var a store.Answer
	sure := p.insist("Release", func() (err error) {
		did, a, err = p.Release(p.Context(), store.Give{
			Ref: r, Next: store.Waiter{Ref: next, Place: store.Place{Waited: time.Millisecond}},
			Record: &store.Record{Fingerprint: "f", Data: "answer"},
		})
		return err
	})
	if sure && (did != store.HandedOver || !a.Granted) {
		w.Errorf("Release = %v, %+v, want that the next one has the lock", did, a)
	}
	w.mustHold(next.Token)
	Note(&next, a)
	w.wantRecord("the next one", p.looking(next, "f", time.Minute), "answer")
	p.release(next, false, store.Freed)
}

func aRecordIsAnyText(w *world) {
	p := w.open()
	for _, data := range []string{"", " ", "a b\nc\r\n", "\x00\xff", "1 2 3"} {
		r := p.take(long)
		p.keep(r, store.Record{Fingerprint: "f", Data: data, Retain: long}, store.Freed)
		r = p.take(long)
		if got := p.looking(r, "f", 0); got == nil || got.Data != data || got.Fingerprint != "f" {
			w.Errorf("record %q: %+v", data, got)
		}
		p.release(r, false, store.Freed)
	}
}

// begin notes that the work of a holder begins. It returns what was found in its place, and whether it was noted.
func (p *process) begin(r store.Ref, work int64) (found *store.Recalled, noted bool) {
	p.Helper()
	p.pass(time.Millisecond)
	var a store.Answer
	p.insist("Recall with Intent", func() (err error) {
		a, err = p.Recall(p.Context(), store.Request{Ref: r, Until: soon(), Recall: &store.Recall{
			Fingerprint: "f", Intent: &store.Intent{Work: work, Lies: long, Retain: long, Form: "form"},
		}})
		return err
	})
	return a.Recalled, a.Granted
}

// wantIntent checks that what was found is the intent of work that was begun.
func (w *world) wantIntent(what string, got *store.Recalled) {
	w.Helper()
	if got == nil || !got.Begun() || got.Work != 7 || got.Fingerprint != "f" || got.Data != "form" || got.Retain != long ||
		got.Made <= 0 || got.Made > got.Clock || got.Until != 0 {
		w.Errorf("%s: %+v, want the intent of work 7", what, got)
	}
}

// Work that was begun and whose holder is gone is told to whoever asks, until somebody says what became of it. While another has the
// key, one waits for that one.
func workThatWasBegunIsTold(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	if found, noted := p.begin(r, 7); found != nil || !noted {
		w.Errorf("begin = %+v, %v", found, noted)
	}
	if found, noted := p.begin(r, 7); found != nil || !noted {
		w.Errorf("begin, asked again = %+v, %v", found, noted)
	}
	if a := other.recalling(other.ref(long), store.Try, "f", 0); a.Granted || a.Recalled != nil {
		w.Errorf("while it is held: %+v, %+v", a, a.Recalled)
	}
	w.wantIntent("who looks", other.looking(other.ref(long), "f", 0))
	p.release(r, false, store.Freed)
	waiter := other.ref(long)
	w.wantIntent("who asks", other.recalling(waiter, store.Wait, "f", 0).Recalled)
	w.mustHold("")
	plain := p.take(long)
	w.wantIntent("who has the lock", p.looking(plain, "g", 0))
	if found, noted := p.begin(plain, 8); noted {
		w.Error("another's work is noted in its place")
	} else {
		w.wantIntent("who begins", found)
	}
	p.release(plain, false, store.Freed)
	if found, noted := p.begin(plain, 8); found == nil || noted {
		w.Errorf("begin without the lock = %+v, %v", found, noted)
	}
}

// Who began keeps the answer, also when the lock is lost; and nobody else's note goes.
func whoBeganKeepsTheAnswer(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	p.begin(r, 7)
	p.keep(r, store.Record{Fingerprint: "f", Data: "answer", Retain: long, Work: 7}, store.Freed)
	w.wantRecord("kept", other.recalling(other.ref(long), store.Try, "f", 0).Recalled, "answer")
}

func whoBeganKeepsTheAnswerAfterALoss(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	p.begin(r, 7)
	p.release(r, false, store.Freed)
	held := other.take(long)
	p.keep(r, store.Record{Fingerprint: "f", Work: 6, Undone: true}, store.NotHeld)
	p.keep(r, store.Record{Fingerprint: "f", Data: "none", Retain: long, Work: 6}, store.NotHeld)
	w.wantIntent("of other work", other.looking(held, "f", 0))
	p.keep(r, store.Record{Fingerprint: "f", Data: "late", Retain: long, Work: 7}, store.NotHeld)
	w.wantRecord("kept late", other.looking(held, "f", 0), "late")
	p.keep(r, store.Record{Fingerprint: "f", Data: "later", Retain: long, Work: 7}, store.NotHeld)
	w.wantRecord("kept again", other.looking(held, "f", 0), "late")
}

func workThatWasNotDoneIsForgotten(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	p.begin(r, 7)
	p.keep(r, store.Record{Work: 7, Undone: true}, store.Freed)
	if a := other.recalling(other.ref(long), store.Try, "f", 0); !a.Granted || a.Recalled != nil {
		w.Errorf("after work that was not done: %+v, %+v", a, a.Recalled)
	}
}

// resolve says what became of work.
func (p *process) resolve(record store.Record, want store.Resolved) {
	p.Helper()
	p.pass(time.Millisecond)
	var got store.Resolved
	if sure := p.insist("Resolve", func() (err error) {
		got, err = p.Resolve(p.Context(), lock, record)
		return err
	}); sure && got != want {
		p.Errorf("Resolve(%+v) = %v, want %v", record, got, want)
	}
}

// Somebody says what became of the work, while nobody has the key.
func workIsResolved(w *world) {
	p := w.open()
	done := store.Record{Fingerprint: "f", Data: "found out", Retain: long, Work: 7}
	p.resolve(done, store.NoSuchWork)
	r := p.take(long)
	p.begin(r, 7)
	p.resolve(done, store.StillHeld)
	p.release(r, false, store.Freed)
	p.resolve(store.Record{Work: 8, Undone: true}, store.NoSuchWork)
	p.resolve(done, store.IsResolved)
	p.resolve(done, store.NoSuchWork)
	w.wantRecord("resolved", p.recalling(p.ref(long), store.Try, "g", 0).Recalled, "found out")
}

func workIsResolvedAsUndone(w *world) {
	p := w.open()
	r := p.take(long)
	p.begin(r, 7)
	p.release(r, false, store.Freed)
	p.resolve(store.Record{Work: 7, Undone: true}, store.IsResolved)
	p.mustGet(p.ref(long), store.Try)
}

// begun returns for which of the keys that begin with prefix work was begun, in order.
func (p *process) begun(prefix string) (names []string) {
	p.Helper()
	p.insist("Begun", func() error {
		names = nil
		return p.Begun(p.Context(), prefix, func(some []string) bool {
			names = append(names, some...)
			return true
		})
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// Work that was begun is listed whether or not somebody has the key, whatever the key is called; what has its answer is not, nor what
// somebody has resolved, nor a key without work.
func workThatWasBegunIsListed(w *world) {
	p := w.open()
	if got := p.begun(""); len(got) > 0 {
		w.Errorf("before any work: %q", got)
	}
	refs := make(map[string]store.Ref)
	for i, name := range oddNames {
		for _, name := range []string{name, name + " is done", name + " has no work"} {
			r := p.ref(long)
			r.Key = name
			p.mustGet(r, store.Try)
			refs[name] = r
		}
		done := refs[name+" is done"]
		p.begin(refs[name], 7)
		p.begin(done, 7)
		p.keep(done, store.Record{Fingerprint: "f", Data: "begun 7 7", Retain: long, Work: 7}, store.Freed)
		if i%2 == 0 {
			p.release(refs[name], false, store.Freed)
		}
	}
	if got, want := p.begun(""), slices.Sorted(slices.Values(oddNames)); !slices.Equal(got, want) {
		w.Errorf("work was begun for %.500q, want %.500q", got, want)
	}
	for prefix, want := range map[string][]string{"a:": {"a:b::c:", "a:queue"}, "*?[": {"*?[a-z]"}, "Zü": {"Zürich/Straße/日本語/🔒"}, "none": nil} {
		if got := p.begun(prefix); !slices.Equal(got, want) {
			w.Errorf("%q: work was begun for %q, want %q", prefix, got, want)
		}
	}
	steps := 0
	if err := p.Begun(p.Context(), "", func([]string) bool { steps++; return false }); err != nil || steps != 1 {
		w.Errorf("Begun went on for %d steps, and the first was all that was wanted: %v", steps, err)
	}
}
