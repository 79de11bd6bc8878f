package lockotel_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockotel"
	"github.com/lockmw/kit/locktest"
)

// A watch is what a Locker's metrics and spans go to.
type watch struct {
	reader *sdkmetric.ManualReader
	spans  *tracetest.InMemoryExporter
	tracer *sdktrace.TracerProvider
}

func newWatch() (*watch, func(more ...lockotel.Option) lockmw.Option) {
	w := &watch{reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	w.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
	return w, func(more ...lockotel.Option) lockmw.Option {
		return lockotel.New(append(more, lockotel.WithMeterProvider(meters), lockotel.WithTracerProvider(w.tracer))...)
	}
}

// values returns the metrics: of a histogram, how often it was recorded.
func (w *watch) values(t *testing.T) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := w.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			put := func(a attribute.Set, v float64) { values[m.Name+"{"+a.Encoded(attribute.DefaultEncoder())+"}"] = v }
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, float64(p.Count))
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, p.Value)
				}
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return values
}

// begun are the counters that are there, and 0, from the first call of a name and mode on.
func begun(name, mode string) map[string]float64 {
	want := map[string]float64{"lockmw_renewals_total{outcome=renewed}": 0, "lockmw_renewals_total{outcome=failed}": 0}
	labels := "mode=" + mode + ",name=" + name
	for _, counter := range []string{"handovers", "lost", "failed_open", "stuck", "stale_writes", "unfenced_writes"} {
		want["lockmw_"+counter+"_total{"+labels+"}"] = 0
	}
	for _, reason := range []string{
		"LOCK_BUSY", "LOCK_WAIT_TIMEOUT", "LOCK_COOLDOWN", "LOCK_QUEUE_FULL", "LOCK_BACKEND_UNAVAILABLE",
		"LOCK_LOST", "LOCK_KEY_INVALID", "LOCK_MISUSE", "LOCK_CLOSED", "CANCELED",
	} {
		want["lockmw_refused_total{"+labels+",reason="+reason+"}"] = 0
	}
	return want
}

// Several keys that one call asks for are one call, and one hold; the gauge counts the locks.
func TestSeveralKeysAreOneCall(t *testing.T) {
	w, option := newWatch()
	locks := locktest.New(t, option())
	ctx, lease, err := locks.AcquireAll(context.Background(), []string{"a", "b", "c"}, lockmw.Policy{Name: "pay"})
	if err != nil {
		t.Fatal(err)
	}
	if held := w.values(t)["lockmw_held{name=pay}"]; held != 3 {
		t.Errorf("%v locks are held, want 3", held)
	}
	if _, _, err := locks.AcquireAll(context.Background(), []string{"c", "d"}, lockmw.Policy{Name: "pay"}); err == nil {
		t.Fatal("no refusal")
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	got := w.values(t)
	for _, metric := range []string{
		"lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=acquired}",
		"lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=refused}",
		"lockmw_hold_duration_seconds{mode=exclusive,name=pay}",
	} {
		if got[metric] != 1 {
			t.Errorf("%s counts %v, want 1", metric, got[metric])
		}
	}
}

func TestMetricsAndSpans(t *testing.T) {
	w, option := newWatch()
	locks := locktest.New(t, option())
	pay := lockmw.Policy{Name: "pay", Prefix: "order:"}
	ctx, request := w.tracer.Tracer("test").Start(context.Background(), "request")
	_, lease, err := locks.Acquire(ctx, "secret-42", pay)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := locks.Acquire(ctx, "secret-42", pay); err == nil {
		t.Fatal("no refusal")
	}
	if ran, err := locks.Once(ctx, "secret-42", pay, func(context.Context) error { return nil }); ran || err != nil {
		t.Fatalf("Once = %v, %v", ran, err)
	}
	next := make(chan *lockmw.Lease)
	go func() {
		waits := pay
		waits.Wait, waits.RetryInterval = time.Minute, time.Minute // it is handed the lock, and does not find it
		_, lease, err := locks.Acquire(ctx, "secret-42", waits)
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	locktest.AwaitWaiters(t, locks, "order:secret-42", 1)
	time.Sleep(20 * time.Millisecond) // the wait that is measured
	for _, l := range []func() *lockmw.Lease{func() *lockmw.Lease { return lease }, func() *lockmw.Lease { return <-next }} {
		if err := l().Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, lease, err = locks.Acquire(context.Background(), "k", pay); err != nil { // nobody traces it
		t.Fatal(err)
	}
	request.End()

	got := w.values(t)
	values := begun("pay", "exclusive")
	maps.Copy(values, map[string]float64{
		"lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=acquired}": 3,
		"lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=refused}":  1,
		"lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=skipped}":  1,
		"lockmw_hold_duration_seconds{mode=exclusive,name=pay}":                     2,
		"lockmw_refused_total{mode=exclusive,name=pay,reason=LOCK_BUSY}":            1,
		"lockmw_handovers_total{mode=exclusive,name=pay}":                           1,
		"lockmw_held{name=pay}": 1, "lockmw_waiting{name=pay}": 0, "lockmw_redis_up{}": 1,
	})
	if renewed := "lockmw_renewals_total{outcome=renewed}"; got[renewed] == 1 {
		values[renewed] = 1 // what was handed over is renewed after 100 ms, which pass on a busy machine
	}
	for name, want := range values {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %t), want %v", name, v, ok, want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more: %v", got)
	}

	spans := w.spans.GetSpans()
	parent := spans[slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == "request" })]
	if n := len(parent.Events); n != 1 || parent.Events[0].Name != "lockmw.handed_over" {
		t.Errorf("events of the request: %+v", parent.Events)
	}
	var outcomes []string
	waited := time.Duration(0)
	for _, s := range spans {
		for _, a := range s.Attributes {
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("%s has the key", a.Key)
			}
		}
		if s.Name == "request" {
			continue
		}
		if s.Name != "lockmw.acquire" || s.Parent.SpanID() != parent.SpanContext.SpanID() {
			t.Errorf("span %s under %v", s.Name, s.Parent.SpanID())
		}
		set := attribute.NewSet(s.Attributes...)
		outcomes = append(outcomes, set.Encoded(attribute.DefaultEncoder()))
		waited = max(waited, s.EndTime.Sub(s.StartTime))
		if refused := set.HasValue("error.type"); (s.Status.Code == codes.Error) != refused || s.Status.Description != "" {
			t.Errorf("status %+v", s.Status)
		}
	}
	slices.Sort(outcomes)
	want := []string{
		"error.type=LOCK_BUSY,lockmw.holder.instance=" + locks.Instance() + ",lockmw.mode=exclusive,lockmw.name=pay,lockmw.outcome=refused",
		"lockmw.holder.instance=" + locks.Instance() + ",lockmw.mode=exclusive,lockmw.name=pay,lockmw.outcome=acquired,lockmw.queued=true",
		"lockmw.holder.instance=" + locks.Instance() + ",lockmw.mode=exclusive,lockmw.name=pay,lockmw.outcome=skipped",
		"lockmw.mode=exclusive,lockmw.name=pay,lockmw.outcome=acquired",
	}
	if !slices.Equal(outcomes, want) || waited < 20*time.Millisecond {
		t.Errorf("spans %q, the longest %v", outcomes, waited)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A lock that Redis had forgotten when it was given back, and nobody waited for that (Policy.AsyncRelease), was held once.
func TestALossBesideAReleaseIsOneHold(t *testing.T) {
	w, option := newWatch()
	c := redistest.Embedded(t).Client(t)
	locks, err := lockmw.New(c, option())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close(context.Background()) }()
	_, lease, err := locks.Acquire(context.Background(), "42", lockmw.Policy{Name: "pay", Wait: time.Second, AsyncRelease: true})
	if err != nil {
		t.Fatal(err)
	}
	c.Del(context.Background(), "lock:{42}")
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the loss is counted", func() bool { return w.values(t)["lockmw_lost_total{mode=exclusive,name=pay}"] == 1 })
	if n := w.values(t)["lockmw_hold_duration_seconds{mode=exclusive,name=pay}"]; n != 1 {
		t.Errorf("%v holds were recorded, want 1", n)
	}
}

// What package fence refuses, and what it lets pass unguarded, is counted.
func TestWritesOfFence(t *testing.T) {
	w, option := newWatch()
	locks := locktest.New(t, option())
	_, lease, err := locks.Acquire(context.Background(), "42", lockmw.Policy{Name: "pay"})
	if err != nil {
		t.Fatal(err)
	}
	seam.Guarded(lease, "42", errors.New("stale"))
	seam.Guarded(lease, "42", errors.New("stale"))
	seam.Guarded(lease, "42", nil)
	await.Until(t, "all are counted", func() bool {
		n := w.values(t)
		return n["lockmw_stale_writes_total{mode=exclusive,name=pay}"] == 2 && n["lockmw_unfenced_writes_total{mode=exclusive,name=pay}"] == 1
	})
	_ = lease.Release(context.Background())
}

// A call of Do that gets the answer of another one needs no lock, and is told as an outcome of its own.
func TestAnAnswerOfOthers(t *testing.T) {
	w, option := newWatch()
	locks := locktest.New(t, option())
	f := lockmw.Flight{Policy: lockmw.Policy{Name: "pay"}, Retain: time.Minute}
	for range 2 {
		if _, _, err := lockmw.Do(context.Background(), locks, "42", f, func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the answer is counted", func() bool {
		return w.values(t)["lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=answered}"] == 1
	})
	f.Policy.Name, f.MaxAnswer = "large", 1
	ctx, request := w.tracer.Tracer("test").Start(context.Background(), "request")
	if _, _, err := lockmw.Do(ctx, locks, "43", f, func(context.Context) (int, error) { return 1000, nil }); err == nil {
		t.Fatal("no error")
	}
	want := map[string]float64{
		"lockmw_answers_total{mode=exclusive,name=pay,outcome=kept}":       1,
		"lockmw_answers_total{mode=exclusive,name=pay,outcome=not_kept}":   0,
		"lockmw_answers_total{mode=exclusive,name=large,outcome=kept}":     0,
		"lockmw_answers_total{mode=exclusive,name=large,outcome=not_kept}": 1,
	}
	for _, name := range []string{"pay", "large"} {
		for _, reason := range []string{"KEY_MISSING", "KEY_REUSED", "IN_PROGRESS", "UNCERTAIN", "ANSWER_NOT_KEPT"} {
			want["lockmw_refused_total{mode=exclusive,name="+name+",reason=IDEMPOTENCY_"+reason+"}"] = 0
		}
	}
	await.Until(t, "all is there", func() bool {
		got := w.values(t)
		for name, n := range want {
			if value, ok := got[name]; !ok || value != n {
				return false
			}
		}
		events := request.(sdktrace.ReadOnlySpan).Events() //nolint:forcetypeassert // the SDK's own
		return len(events) == 1 && events[0].Name == "lockmw.answer_not_kept"
	})
	request.End()
}

func TestTwoLockersShareAMeterProvider(t *testing.T) {
	w, option := newWatch()
	one, two := locktest.New(t, option()), locktest.New(t, option())
	p := lockmw.Policy{Name: "p"}
	var leases []*lockmw.Lease
	for key, l := range map[string]*lockmw.Locker{"a": one, "b": one, "c": two} {
		_, lease, err := l.Acquire(context.Background(), key, p)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}
	if got := w.values(t); got["lockmw_held{name=p}"] != 3 || got["lockmw_redis_up{}"] != 1 {
		t.Errorf("held %v, up %v, want 3 and 1", got["lockmw_held{name=p}"], got["lockmw_redis_up{}"])
	}
	locktest.Down(t, two)
	waits := lockmw.Policy{Name: "p", Wait: time.Minute} // until it is known that nobody answers
	if _, _, err := two.Acquire(context.Background(), "d", waits); err == nil {
		t.Error("a lock without Redis")
	}
	if got := w.values(t); got["lockmw_redis_up{}"] != 0 {
		t.Error("up while one of them is cut off")
	}
	locktest.Up(t, two)
	for _, lease := range leases {
		_ = lease.Release(context.Background())
	}
	for _, l := range []*lockmw.Locker{one, two} {
		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if got, there := w.values(t)["lockmw_redis_up{}"]; there {
		t.Errorf("up is %v, though no Locker is there", got)
	}
	_, lease, err := locktest.New(t, option()).Acquire(context.Background(), "a", p)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.values(t); got["lockmw_held{name=p}"] != 1 {
		t.Errorf("held %v by the one that came later, want 1", got["lockmw_held{name=p}"])
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestTheKeyIsInSpansWhereItIsAskedFor(t *testing.T) {
	w, option := newWatch()
	locks := locktest.New(t, option(lockotel.WithKeyAttribute()))
	ctx, span := w.tracer.Tracer("test").Start(context.Background(), "request")
	if err := locks.WithLock(ctx, "42", lockmw.Policy{Prefix: "order:"}, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	span.End()
	set := attribute.NewSet(w.spans.GetSpans()[0].Attributes...)
	if v, ok := set.Value("lockmw.key"); !ok || v.AsString() != "order:42" {
		t.Errorf("attributes: %v", set.Encoded(attribute.DefaultEncoder()))
	}
}

func TestWrongOptions(t *testing.T) {
	for want, opt := range map[string]lockmw.Option{
		"lockmw: lockotel: option 1 is nil":   lockotel.New(nil),
		"lockmw: lockotel: a provider is nil": lockotel.New(lockotel.WithMeterProvider(nil)),
	} {
		if _, err := lockmw.New(nil, opt); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestNamesAreBounded(t *testing.T) {
	w, option := newWatch()
	series := 0
	doortest.NamesTakeNoMemory(t, func(names int) {
		got := w.values(t)
		const each = 5 + 6 + 10 // durations (two outcomes) and gauges, counters, and the reasons of refusals
		if n := len(got); n > 201*each+3 || series != 0 && n != series {
			t.Errorf("%d series after %d names, %d before", n, names, series)
		}
		series = len(got)
		if n := got["lockmw_acquire_duration_seconds{mode=exclusive,name=other,outcome=acquired}"]; n != float64(names-200) {
			t.Errorf("%v of %d count as other", n, names-200)
		}
	}, option())
	t.Logf("%d series", series)
}

func TestTheObserverCostsFewAllocations(t *testing.T) {
	_, option := newWatch()
	doortest.AddsFewAllocations(t, option())
}

func BenchmarkObserver(b *testing.B) {
	w, option := newWatch()
	b.Run("metrics", func(b *testing.B) { doortest.BenchmarkAdded(b, context.Background(), option()) })
	b.Run("a span that is not sampled", func(b *testing.B) {
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, Remote: true})
		doortest.BenchmarkAdded(b, trace.ContextWithSpanContext(context.Background(), parent), option())
	})
	b.Run("a span that is exported nowhere", func(b *testing.B) {
		quiet := sdktrace.NewTracerProvider()
		ctx, span := quiet.Tracer("test").Start(context.Background(), "request")
		defer span.End()
		doortest.BenchmarkAdded(b, ctx, option(lockotel.WithTracerProvider(quiet)))
	})
	_ = w
}

// What policies in shadow would have come to has metrics of its own, and no spans: the others do not count such calls.
func TestMetricsOfPoliciesInShadow(t *testing.T) {
	w, option := newWatch()
	locks := locktest.New(t, option())
	pay := lockmw.Policy{Name: "pay", Prefix: "order:", Shadow: true}
	ctx, request := w.tracer.Tracer("test").Start(context.Background(), "request")
	var leases []*lockmw.Lease
	labels := "mode=exclusive,name=pay"
	for _, outcome := range []string{"acquired", "refused"} {
		_, lease, err := locks.Acquire(ctx, "42", pay)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
		await.Within(t, 20*time.Second, outcome, func() bool {
			return w.values(t)["lockmw_shadow_acquire_duration_seconds{"+labels+",outcome="+outcome+"}"] == 1
		})
	}
	want := map[string]float64{
		"lockmw_renewals_total{outcome=renewed}": 0, "lockmw_renewals_total{outcome=failed}": 0,
		"lockmw_held{name=pay}": 0, "lockmw_waiting{name=pay}": 0, "lockmw_redis_up{}": 1, "lockmw_shadow{name=pay}": 1,
		"lockmw_shadow_acquire_duration_seconds{" + labels + ",outcome=acquired}": 1,
		"lockmw_shadow_acquire_duration_seconds{" + labels + ",outcome=refused}":  1,
		"lockmw_shadow_overlaps_total{mixed=false," + labels + "}":                1,
		"lockmw_shadow_overlaps_total{mixed=true," + labels + "}":                 0,
		"lockmw_shadow_incomplete_total{" + labels + "}":                          0,
	}
	for _, reason := range []string{"LOCK_BUSY", "LOCK_WAIT_TIMEOUT", "LOCK_COOLDOWN", "LOCK_QUEUE_FULL", "LOCK_MISUSE", "CANCELED"} {
		want["lockmw_shadow_refused_total{"+labels+",reason="+reason+"}"] = 0
	}
	want["lockmw_shadow_refused_total{"+labels+",reason=LOCK_BUSY}"] = 1
	// Metrics are read one after the other, so one reading can have the overlap and not yet the refusal before it.
	var got map[string]float64
	for until := time.Now().Add(20 * time.Second); !maps.Equal(got, want) && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		got = w.values(t)
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics are %v, want %v", got, want)
	}
	for _, lease := range leases {
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	request.End()
	if spans := w.spans.GetSpans(); len(spans) != 1 {
		t.Errorf("%d spans, want the request's alone", len(spans))
	}
}

// A Locker with live settings tells which names run without their lock, and how its sources are.
func TestMetricsOfLiveSettings(t *testing.T) {
	w, option := newWatch()
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{"*/pay": {"off": true}, "*/mail": {"wait": "1s"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	locks := locktest.New(t, option(), lockmw.WithSettings(lockmw.SettingsFile(file)), lockmw.AllowOff())
	for _, name := range []string{"pay", "mail", "other"} {
		if err := locks.WithLock(context.Background(), name, lockmw.Policy{Name: name}, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := locks.WithLocks(context.Background(), []string{"a", "b"}, lockmw.Policy{Name: "pay"}, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	got := w.values(t)
	for name, want := range map[string]float64{
		"lockmw_off{name=pay}": 1, "lockmw_off{name=mail}": 0, "lockmw_off{name=other}": 0,
		"lockmw_settings{field=off}": 1, "lockmw_settings{field=wait}": 1, "lockmw_settings{field=ttl}": 0, "lockmw_settings_refused{}": 0,
		"lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=off}": 2, // several keys are one call
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %t), want %v", name, v, ok, want)
		}
	}
	if _, ok := got["lockmw_settings_age_seconds{source=file}"]; !ok {
		t.Error("there is no age")
	}
}
