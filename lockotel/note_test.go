package lockotel_test

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockotel"
)

// of returns the span called name in the trace of ctx, once it is there.
func (w *watch) of(ctx context.Context, t *testing.T, name string) (span tracetest.SpanStub) {
	t.Helper()
	trace := trace.SpanContextFromContext(ctx).TraceID()
	await.Until(t, "the span "+name, func() bool {
		for _, span = range w.spans.GetSpans() {
			if span.Name == name && span.SpanContext.TraceID() == trace {
				return true
			}
		}
		return false
	})
	return span
}

// wantHolder fails the test unless a span names the holder's Locker and its note, and links to the holder's span alone.
func wantHolder(t *testing.T, what string, span tracetest.SpanStub, by *lockmw.Locker, note string, want trace.SpanContext) {
	t.Helper()
	said := make(map[string]string)
	for _, a := range span.Attributes {
		said[string(a.Key)] = a.Value.AsString()
	}
	if said["lockmw.holder.instance"] != by.Instance() || said["lockmw.holder.note"] != note {
		t.Errorf("%s: the span says %v, want %s and %q", what, said, by.Instance(), note)
	}
	if len(span.Links) != 1 || span.Links[0].SpanContext.TraceID() != want.TraceID() || span.Links[0].SpanContext.SpanID() != want.SpanID() {
		t.Errorf("%s: the links are %+v, want one to %s-%s", what, span.Links, want.TraceID(), want.SpanID())
	}
}

// Whoever waits, or is refused, has a link to the span of who has the lock: another Locker's, and the same one's, where it is the
// lease that has the lock now and not the first under its token.
func TestTheSpanOfAWaiterLinksToTheHolders(t *testing.T) {
	s := redistest.Embedded(t)
	w, option := newWatch()
	notes := lockmw.WithNote(func(ctx context.Context) string { return "req-7 " + lockotel.Note(ctx) })
	a, b := testenv.Open(t, s.Client(t), option(), notes), testenv.Open(t, s.Client(t), option(), notes)
	key, p := redistest.Prefix(t), lockmw.Policy{Wait: time.Minute}
	tracer := w.tracer.Tracer("test")
	begin := func(name string) context.Context {
		ctx, span := tracer.Start(context.Background(), name)
		t.Cleanup(func() { span.End() })
		return ctx
	}
	acquire := func(l *lockmw.Locker, ctx context.Context) <-chan *lockmw.Lease {
		got := make(chan *lockmw.Lease, 1)
		go func() {
			_, lease, err := l.Acquire(ctx, key, p)
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		return got
	}
	waits := func(l *lockmw.Locker, n int) {
		t.Helper()
		await.Until(t, "they wait", func() bool { info, err := l.Inspect(context.Background(), key); return err == nil && info.Waiting == n })
	}
	release := func(l *lockmw.Lease) {
		t.Helper()
		if err := l.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	first, second, third := begin("first"), begin("second"), begin("third")
	lease := await.Receive(t, "the lock", acquire(a, first))
	other := acquire(b, second)
	waits(b, 1)
	release(lease)
	lease = await.Receive(t, "the lock", other)
	wantHolder(t, "of another Locker", w.of(second, t, "lockmw.acquire"), a, "req-7 "+lockotel.Note(first), trace.SpanContextFromContext(first))

	same := acquire(b, third)
	waits(b, 1)
	release(lease) // it goes on within b, under the token with second's note
	lease = await.Receive(t, "the lock", same)
	wantHolder(t, "of the same Locker", w.of(third, t, "lockmw.acquire"), b, "req-7 "+lockotel.Note(second), trace.SpanContextFromContext(second))
	refused := begin("refused")
	if _, _, err := b.Acquire(refused, key, lockmw.Policy{}); err == nil {
		t.Fatal("no refusal")
	}
	wantHolder(t, "of the lease that has the lock now", w.of(refused, t, "lockmw.acquire"), b, "req-7 "+lockotel.Note(third), trace.SpanContextFromContext(third))
	release(lease)

	alone := begin("alone")
	release(await.Receive(t, "the lock", acquire(a, alone)))
	if span := w.of(alone, t, "lockmw.acquire"); len(span.Links) > 0 {
		t.Errorf("a call that nobody was in the way of has links: %+v", span.Links)
	}
}

// The price: 49 bytes, for sampled spans alone.
func TestOnlySampledSpansAreNoted(t *testing.T) {
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	always := sdktrace.NewTracerProvider()
	for name, tc := range map[string]struct {
		ctx   context.Context
		bytes int
	}{
		"no span":              {context.Background(), 0},
		"one that is not kept": {start(never), 0},
		"a sampled one":        {start(always), 49},
	} {
		if note := lockotel.Note(tc.ctx); len(note) != tc.bytes {
			t.Errorf("%s: the note %q has %d bytes, want %d", name, note, len(note), tc.bytes)
		}
	}
}

func start(p *sdktrace.TracerProvider) context.Context {
	ctx, span := p.Tracer("test").Start(context.Background(), "request")
	span.End() // its ids stay
	return ctx
}

// A note is written by programs: whatever is in it, a span has a link to a whole and valid id, or none.
func TestNotesThatNameNoSpan(t *testing.T) {
	s := redistest.Embedded(t)
	for _, note := range []string{
		"req-7", "00000000000000000000000000000000-0000000000000000", "4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7x",
		"4bf92f3577b34da6a3ce929d0e0e47zz-00f067aa0ba902b7", "4bf92f3577b34da6a3ce929d0e0e4736-", "-", "\xff\x00",
	} {
		w, option := newWatch()
		l := testenv.Open(t, s.Client(t), option(), lockmw.WithNote(func(context.Context) string { return note }))
		key := redistest.Prefix(t)
		_, lease, err := l.Acquire(context.Background(), key, lockmw.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := start(w.tracer)
		if _, _, err := l.Acquire(ctx, key, lockmw.Policy{}); err == nil {
			t.Fatal("no refusal")
		}
		if span := w.of(ctx, t, "lockmw.acquire"); len(span.Links) > 0 {
			t.Errorf("%q: the links are %+v", note, span.Links)
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
