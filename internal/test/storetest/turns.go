package storetest

import (
	"slices"
	"strings"

	"github.com/lockmw/kit/internal/store"
)

// turns is about readers and writers in one queue.
var turns = []test{
	{"AWaitingWriterKeepsLaterReadersOut", aWaitingWriterKeepsLaterReadersOut},
	{"AWriterWaitsForAllReaders", aWriterWaitsForAllReaders},
	{"AWritersReleaseLetsAllLeadingReadersIn", aWritersReleaseLetsAllLeadingReadersIn},
	{"AWriterThatDiesLetsAllLeadingReadersIn", aWriterThatDiesLetsAllLeadingReadersIn},
	{"AWriterThatGivesUpLetsReadersIn", aWriterThatGivesUpLetsReadersIn},
	{"AReaderThatDiesMakesWayForAWriter", aReaderThatDiesMakesWay},
	{"AStreamOfReadersDoesNotStarveAWriter", aStreamOfReadersDoesNotStarveAWriter},
	{"AReadersReleaseBesideOthersServesNobody", aReadersReleaseBesideOthersServesNobody},
	{"AWaiterSeesAllItsSiblings", aWaiterSeesAllItsSiblings},
	{"AGrantedReaderSeesItsSiblings", aGrantedReaderSeesItsSiblings},
}

func aWaitingWriterKeepsLaterReadersOut(w *world) {
	p, e := w.open(), w.open().listen()
	holds := p.takeAs(reader, long)
	first := e.queueAs(writer)
	late := e.queueAs(reader)
	for _, by := range []*process{p, e.process} {
		by.excluded(reader)
	}
	p.release(holds, false, store.HandedOver)
	e.hears(first)
	w.mustHold(first.Token)
	e.release(first, false, store.HandedOver)
	e.hears(late)
	e.release(late, false, store.Freed)
	w.mustBeEmpty("the last release")
}

func aWriterWaitsForAllReaders(w *world) {
	p, e := w.open(), w.open().listen()
	a, b, c := p.takeAs(reader, long), p.takeAs(reader, long), e.takeAs(reader, long)
	waits := e.queueAs(writer)
	for _, r := range []store.Ref{b, a} {
		p.release(r, false, store.Freed)
		e.mustNotGet(waits, store.Wait)
	}
	e.heardNothing()
	e.release(c, false, store.HandedOver)
	e.hears(waits)
	w.mustHold(waits.Token)
}

// line queues three readers, a writer and one more reader.
func (e *ear) line(other *ear) (leading []store.Ref, next, behind store.Ref) {
	e.Helper()
	leading = []store.Ref{e.queueAs(reader), other.queueAs(reader), e.queueAs(reader)}
	return leading, other.queueAs(writer), e.queueAs(reader)
}

// passes has the line's readers hold together, then the writer, then the last.
func (e *ear) passes(other *ear, leading []store.Ref, next, behind store.Ref) {
	e.Helper()
	e.hears(leading[0])
	other.hears(leading[1])
	e.hears(leading[2])
	for _, r := range leading {
		if !e.renew(r) {
			e.Error("a leading reader did not get in with the others")
		}
	}
	e.mustNotGet(behind, store.Wait)
	other.mustNotGet(next, store.Wait)
	e.heardNothing()
	for i, r := range leading {
		want := store.Freed
		if i == len(leading)-1 {
			want = store.HandedOver
		}
		e.release(r, false, want)
	}
	other.hears(next)
	other.release(next, false, store.HandedOver)
	e.hears(behind)
	e.release(behind, false, store.Freed)
	e.mustBeEmpty("the last release")
}

func aWritersReleaseLetsAllLeadingReadersIn(w *world) {
	p, e, other := w.open(), w.open().listen(), w.open().listen()
	holds := p.take(long)
	leading, next, behind := e.line(other)
	p.release(holds, false, store.HandedOver)
	e.passes(other, leading, next, behind)
}

// aWriterThatDiesLetsAllLeadingReadersIn: the question of whoever asks next
// lets them in.
func aWriterThatDiesLetsAllLeadingReadersIn(w *world) {
	p, e, other := w.open(), w.open().listen(), w.open().listen()
	p.take(long)
	leading, next, behind := e.line(other)
	w.drop()
	other.mustNotGet(next, store.Wait)
	e.passes(other, leading, next, behind)
}

// aWriterThatGivesUpLetsReadersIn who stand behind it, beside one who holds.
func aWriterThatGivesUpLetsReadersIn(w *world) {
	p, e := w.open(), w.open().listen()
	for how, giveUp := range map[string]func(r store.Ref){
		"leave": func(r store.Ref) { p.release(r, true, store.NotHeld) },
		"Last":  func(r store.Ref) { p.mustNotGet(r, store.Last) },
	} {
		holds := p.takeAs(reader, long)
		gone := p.queueAs(writer)
		a, b, next := e.queueAs(reader), e.queueAs(reader), e.queueAs(writer)
		giveUp(gone)
		e.hears(a)
		e.hears(b)
		for _, r := range []store.Ref{holds, a, b} {
			if !e.renew(r) {
				w.Errorf("%s: a reader does not hold the lock", how)
			}
		}
		e.mustNotGet(next, store.Last)
		for _, r := range []store.Ref{a, holds, b} {
			p.release(r, false, store.Freed)
		}
		w.mustBeEmpty("the last release")
	}
}

func aReaderThatDiesMakesWay(w *world) {
	p, e := w.open(), w.open().listen()
	lives, waits := p.takeAs(reader, long), p.as(writer, long)
	dies := p.takeAs(reader, long)
	e.mustNotGet(waits, store.Wait)
	p.release(lives, false, store.Freed) // while the other lives
	dies.TTL = short
	if !p.renew(dies) {
		w.Error("the reader was lost before it died")
	}
	w.outlast(short)
	e.mustGet(waits, store.Wait)
	w.mustHold(waits.Token)
}

func aStreamOfReadersDoesNotStarveAWriter(w *world) {
	p, e := w.open(), w.open().listen()
	stream := []store.Ref{p.takeAs(reader, long), p.takeAs(reader, long)}
	var waits store.Ref
	for i := range 8 {
		if i == 3 {
			waits = e.queueAs(writer)
		}
		if i < 3 {
			stream = append(stream, p.takeAs(reader, long)) // before the writer came
		} else {
			stream = append(stream, p.queueAs(reader)) // behind it
		}
	}
	for i, r := range stream[:5] {
		want := store.Freed
		if i == 4 {
			want = store.HandedOver
		}
		p.release(r, false, want)
	}
	e.hears(waits)
	e.release(waits, false, store.HandedOver)
	for _, r := range stream[5:] {
		p.mustGet(r, store.Wait)
	}
}

// aReadersReleaseBesideOthersServesNobody: the ones who wait would exclude
// those who go on.
func aReadersReleaseBesideOthersServesNobody(w *world) {
	p, e := w.open(), w.open().listen()
	a, b := p.takeAs(reader, long), p.takeAs(reader, long)
	waits := []store.Ref{e.queueAs(writer), e.queueAs(reader)}
	for range 2 {
		p.leave(a, false)
	}
	p.release(p.as(reader, long), true, store.NotHeld)
	e.heardNothing()
	p.release(b, false, store.HandedOver)
	e.hears(waits[0])
}

func aWaiterSeesAllItsSiblings(w *world) {
	holder, p, other := w.open(), w.open(), w.open()
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		r := holder.take(long)
		mine := []store.Ref{p.queueAs(reader), p.queueAs(reader)}
		theirs := other.queueAs(reader)
		holder.release(r, false, store.HandedOver) // nobody is told: they poll
		waits := p.as(writer, long)
		siblings := strings.Fields(p.mustNotGet(waits, join).Siblings)
		slices.Sort(siblings)
		want := []string{mine[0].Token, mine[1].Token}
		slices.Sort(want)
		if !slices.Equal(siblings, want) {
			w.Errorf("Acquire(%s): Siblings = %q, want %q", joins[join], siblings, want)
		}
		p.leave(waits, true)
		for _, r := range append(mine, theirs) {
			p.release(r, false, store.Freed)
		}
		w.mustBeEmpty("the releases")
	}
}

// aGrantedReaderSeesItsSiblings: readers of a process that hears no messages
// are let in together, and the first to ask tells the others.
func aGrantedReaderSeesItsSiblings(w *world) {
	holder, p := w.open(), w.open()
	for _, kind := range []store.Kind{reader, permit(3)} {
		r := holder.take(long)
		line := []store.Ref{p.queueAs(kind), p.queueAs(kind), p.queueAs(kind)}
		holder.release(r, false, store.HandedOver)
		got := strings.Fields(p.mustGet(line[0], store.Wait).Siblings)
		slices.Sort(got)
		want := []string{line[1].Token, line[2].Token}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			w.Errorf("%+v: Siblings of a grant = %q, want %q", kind, got, want)
		}
		for _, r := range line {
			p.release(r, true, store.Freed)
		}
	}
	w.mustBeEmpty("the releases")
}
