// Package traces checks what one request through Gin, with OpenTelemetry's middleware and a
// lock, leaves in a trace. It is a module of its own, because nothing else here needs that
// middleware.
package traces

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockotel"
	"github.com/lockmw/kit/locktest"
)

// secret is the key of all requests: nothing of a trace has it, unless it is asked for.
const (
	secret = "secret-42"
	key    = "order:" + secret
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	m.Run()
}

// A shop is a service with a lock, and the spans of its requests.
type shop struct {
	t        *testing.T
	locks    *lockmw.Locker
	exported *tracetest.InMemoryExporter
	tracer   trace.Tracer
	engine   *gin.Engine

	pay func(ctx context.Context) // what the handler does besides
}

// A setting is how the shop is wired.
type setting struct {
	policy   lockmw.Policy
	sampler  sdktrace.Sampler // nil: all
	untraced bool             // without OpenTelemetry's middleware
	options  []lockotel.Option
}

func open(t *testing.T, with setting) *shop {
	t.Helper()
	s := &shop{t: t, exported: tracetest.NewInMemoryExporter(), pay: func(context.Context) {}}
	opts := []sdktrace.TracerProviderOption{sdktrace.WithSyncer(s.exported)}
	if with.sampler != nil {
		opts = append(opts, sdktrace.WithSampler(with.sampler))
	}
	provider := sdktrace.NewTracerProvider(opts...)
	s.tracer = provider.Tracer("shop")
	s.locks = locktest.New(t, lockotel.New(append(with.options, lockotel.WithTracerProvider(provider))...))
	s.engine = gin.New()
	if !with.untraced {
		s.engine.Use(otelgin.Middleware("shop", otelgin.WithTracerProvider(provider), otelgin.WithPropagators(propagation.TraceContext{})))
	}
	with.policy.Name, with.policy.Prefix = "pay", "order:"
	s.engine.POST("/pay", ginlock.Middleware(s.locks, keyfunc.MustParse("{header.X-Order}"), with.policy), func(c *gin.Context) {
		_, work := s.tracer.Start(c.Request.Context(), "work")
		defer work.End()
		s.pay(c.Request.Context())
		c.Status(http.StatusNoContent)
	})
	return s
}

// post sends a request, and wants a status and no key in the answer.
func (s *shop) post(want int, headers ...string) {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/pay", nil)
	r.Header.Set("X-Order", secret)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.engine.ServeHTTP(w, r)
	if w.Code != want || strings.Contains(w.Body.String(), secret) {
		s.t.Errorf("status %d, want %d: %s", w.Code, want, w.Body)
	}
}

// A tree is the spans of a trace, the outer ones before the inner ones, a line each.
func (s *shop) tree() []string {
	s.t.Helper()
	spans := s.exported.GetSpans()
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var lines []string
	var walk func(parent trace.SpanID, depth int)
	walk = func(parent trace.SpanID, depth int) {
		for _, span := range spans {
			if span.Parent.SpanID() == parent {
				lines = append(lines, strings.Repeat("  ", depth)+line(span))
				walk(span.SpanContext.SpanID(), depth+1)
			}
		}
	}
	walk(trace.SpanID{}, 0)
	if len(lines) != len(spans) {
		s.t.Errorf("%d spans, of which %d are in the tree", len(spans), len(lines))
	}
	for _, span := range spans {
		if span.SpanContext.TraceID() != spans[0].SpanContext.TraceID() {
			s.t.Errorf("%s is in another trace", span.Name)
		}
		if text := fmt.Sprintf("%+v", span); strings.Contains(text, secret) {
			s.t.Errorf("%s has the key: %s", span.Name, text)
		}
	}
	return lines
}

// line is a span as the tests want it: of other libraries' its name alone, with its events.
func line(span tracetest.SpanStub) string {
	var b strings.Builder
	b.WriteString(span.Name)
	for _, a := range span.Attributes {
		name := string(a.Key)
		if name == "lockmw.holder.instance" { // which has a name of its own each time
			b.WriteString(" holder")
		} else if strings.HasPrefix(name, "lockmw.") || name == "error.type" && strings.HasPrefix(span.Name, "lockmw.") {
			fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(name, "lockmw."), a.Value.String())
		}
	}
	if strings.HasPrefix(span.Name, "lockmw.") && (span.Status.Code != codes.Unset || span.Status.Description != "") {
		fmt.Fprintf(&b, " [%s%s]", span.Status.Code, span.Status.Description)
	}
	for _, e := range span.Events {
		fmt.Fprintf(&b, " (%s", e.Name)
		for _, a := range e.Attributes {
			fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(string(a.Key), "lockmw."), a.Value.String())
		}
		b.WriteString(")")
	}
	return b.String()
}

func (s *shop) wantTree(want ...string) {
	s.t.Helper()
	if got := s.tree(); !slices.Equal(got, want) {
		s.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAFreeLock(t *testing.T) {
	s := open(t, setting{})
	s.post(http.StatusNoContent)
	s.wantTree(
		"POST /pay",
		"  lockmw.acquire name=pay mode=exclusive outcome=acquired",
		"  work",
	)
}

// The span is the wait: it begins when the lock is asked for, and ends before the work begins.
func TestAWait(t *testing.T) {
	s := open(t, setting{policy: lockmw.Policy{Wait: time.Minute}})
	s.post(http.StatusNoContent)
	s.exported.Reset()
	await.Until(t, "the Locker is subscribed, so that it passes locks on", func() bool { return s.locks.Stats().Subscribed })
	_, held, err := s.locks.Acquire(t.Context(), key, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	var works time.Time
	s.pay = func(context.Context) { works = time.Now() }
	asks, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		s.post(http.StatusNoContent)
	}()
	locktest.AwaitWaiters(t, s.locks, key, 1)
	waits := time.Now()
	time.Sleep(20 * time.Millisecond) // the wait that is measured
	released := time.Now()
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	s.wantTree(
		"POST /pay (lockmw.handed_over name=pay mode=exclusive)",
		"  lockmw.acquire holder name=pay mode=exclusive outcome=acquired queued=true",
		"  work",
	)
	for _, span := range s.exported.GetSpans() {
		if span.Name != "lockmw.acquire" {
			continue
		}
		if span.StartTime.Before(asks) || span.StartTime.After(waits) {
			t.Errorf("the wait begins %v after the request, and %v before it is seen", span.StartTime.Sub(asks), waits.Sub(span.StartTime))
		}
		if span.EndTime.Before(released) || span.EndTime.After(works) {
			t.Errorf("the wait ends %v after the release, and %v before the work", span.EndTime.Sub(released), works.Sub(span.EndTime))
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  lockmw.Policy
		status  int
		headers []string
		says    string // what the request's own span has of Gin's errors
		acquire string
	}{
		"at once":      {lockmw.Policy{}, http.StatusConflict, nil, `lockmw: acquire for "pay": lock not acquired: held by others (1 attempt in `, "error.type=LOCK_BUSY"},
		"after a wait": {lockmw.Policy{Wait: 30 * time.Millisecond}, http.StatusConflict, nil, `lockmw: acquire for "pay": lock not acquired: held by others until the wait was over (`, "queued=true error.type=LOCK_WAIT_TIMEOUT"},
		"without key":  {lockmw.Policy{}, http.StatusBadRequest, []string{"X-Order", ""}, `lockmw: acquire for "pay": invalid key: `, "error.type=LOCK_KEY_INVALID"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, setting{policy: tc.policy})
			if tc.status != http.StatusBadRequest {
				locktest.Hold(t, s.locks, key)
			}
			s.pay = func(context.Context) { t.Error("the work runs") }
			s.post(tc.status, tc.headers...)
			got := s.tree()
			if len(got) == 0 || !strings.HasPrefix(got[0], "POST /pay (exception exception.type=") || !strings.Contains(got[0], tc.says) {
				t.Errorf("got %q, want %q", got, tc.says)
			}
			holder := "holder " // of a lock that was asked for
			if tc.acquire == "error.type=LOCK_KEY_INVALID" {
				holder = ""
			}
			if want := "  lockmw.acquire " + holder + "name=pay mode=exclusive outcome=refused " + tc.acquire + " [Error]"; len(got) != 2 || got[1] != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A loss is told in the background, while the request's span lasts.
func TestALostLock(t *testing.T) {
	s := open(t, setting{})
	held := make(chan struct{})
	s.pay = func(ctx context.Context) {
		close(held)
		<-ctx.Done()
		// The span around the handler, which the lock's context has.
		request := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan)
		for until := time.Now().Add(20 * time.Second); len(request.Events()) == 0 && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.post(http.StatusInternalServerError)
	}()
	<-held
	locktest.Lose(t, s.locks, key)
	<-done
	s.wantTree(
		"POST /pay (lockmw.lost name=pay mode=exclusive) (exception exception.type=*errors.errorString exception.message=lockmw: lock was lost)",
		"  lockmw.acquire name=pay mode=exclusive outcome=acquired",
		"  work",
	)
}

// Work that runs without its lock is no error of the request.
func TestFailOpen(t *testing.T) {
	s := open(t, setting{policy: lockmw.Policy{FailOpen: true}})
	locktest.Down(t, s.locks)
	s.post(http.StatusNoContent)
	s.wantTree(
		"POST /pay",
		"  lockmw.acquire name=pay mode=exclusive outcome=failed_open",
		"  work",
	)
}

func TestWhoIsNotSampledHasNoSpans(t *testing.T) {
	s := open(t, setting{sampler: sdktrace.NeverSample()})
	s.post(http.StatusNoContent)
	s.wantTree()
	s = open(t, setting{sampler: sdktrace.ParentBased(sdktrace.AlwaysSample())})
	s.post(http.StatusNoContent, "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	s.wantTree()
}

func TestWithoutAParentThereIsNoSpan(t *testing.T) {
	s := open(t, setting{untraced: true})
	s.post(http.StatusNoContent)
	s.wantTree("work")
}

// A caller's span may be that of another process.
func TestTheParentMayBeElsewhere(t *testing.T) {
	s := open(t, setting{})
	const elsewhere = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s.post(http.StatusNoContent, "traceparent", elsewhere)
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": elsewhere})
	if err := s.locks.WithLock(ctx, "other", lockmw.Policy{Name: "job"}, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	parents := make(map[string]trace.SpanID)
	for _, span := range s.exported.GetSpans() {
		parents[line(span)] = span.Parent.SpanID()
		if got := span.SpanContext.TraceID().String(); got != elsewhere[3:35] {
			t.Errorf("%s is in trace %s", span.Name, got)
		}
	}
	for _, name := range []string{"POST /pay", "lockmw.acquire name=job mode=exclusive outcome=acquired"} {
		if got := parents[name]; got.String() != elsewhere[36:52] {
			t.Errorf("the parent of %s is %s", name, got)
		}
	}
}

func TestTheKeyIsThereWhereItIsAskedFor(t *testing.T) {
	s := open(t, setting{options: []lockotel.Option{lockotel.WithKeyAttribute()}})
	s.post(http.StatusNoContent)
	for _, span := range s.exported.GetSpans() {
		if got, want := strings.Contains(line(span), "key="+key), span.Name == "lockmw.acquire"; got != want {
			t.Errorf("%s: the key is there: %v, want %v", line(span), got, want)
		}
	}
}
