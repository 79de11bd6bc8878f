package lockprom_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockprom"
	"github.com/lockmw/kit/locktest"
)

// gathered returns the values of all metrics: of a histogram, how often it was observed.
func gathered(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if f.GetType() == dto.MetricType_HISTOGRAM {
				value = float64(m.GetHistogram().GetSampleCount())
			}
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return all
}

// eventually waits until the metrics are as wanted. Those of orOne may be 1 instead, and are wanted so from then on.
func eventually(t *testing.T, r prometheus.Gatherer, want map[string]float64, orOne ...string) {
	t.Helper()
	var got map[string]float64
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		got = gathered(t, r)
		for _, name := range orOne {
			if got[name] == 1 {
				want[name] = 1
			}
		}
		if maps.Equal(got, want) {
			return
		}
	}
	for name := range got {
		if got[name] != want[name] {
			t.Errorf("%s is %v, want %v", name, got[name], want[name])
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	t.FailNow()
}

// begun adds what is there, and 0, from the first call of a name and mode on.
func begun(want map[string]float64, name, mode string) {
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
}

// fresh are the metrics of a Locker that was not used.
func fresh() map[string]float64 {
	return map[string]float64{
		"lockmw_redis_up{}": 1, "lockmw_renewals_total{outcome=renewed}": 0, "lockmw_renewals_total{outcome=failed}": 0,
	}
}

func must(t *testing.T, l *lockmw.Locker, key string, p lockmw.Policy) *lockmw.Lease {
	t.Helper()
	_, lease, err := l.Acquire(context.Background(), key, p)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func release(t *testing.T, lease *lockmw.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	locks := locktest.New(t, lockprom.New(registry))
	want := fresh()
	eventually(t, registry, want)

	pay := lockmw.Policy{Name: "pay", Prefix: "order:"}
	lease := must(t, locks, "42", pay)
	begun(want, "pay", "exclusive")
	want["lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=acquired}"] = 1
	want["lockmw_held{name=pay}"] = 1
	want["lockmw_waiting{name=pay}"] = 0
	eventually(t, registry, want)

	_, _, err := locks.Acquire(context.Background(), "42", pay)
	if err == nil {
		t.Fatal("no refusal")
	}
	want["lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=refused}"] = 1
	want["lockmw_refused_total{mode=exclusive,name=pay,reason=LOCK_BUSY}"] = 1
	eventually(t, registry, want)

	if ran, err := locks.Once(context.Background(), "42", pay, func(context.Context) error { return nil }); ran || err != nil {
		t.Fatalf("Once = %v, %v", ran, err)
	}
	want["lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=skipped}"] = 1
	eventually(t, registry, want)

	waits, gone := context.WithCancel(context.Background())
	var left sync.WaitGroup
	left.Go(func() {
		_, _, _ = locks.Acquire(waits, "42", lockmw.Policy{Name: "pay", Prefix: "order:", Wait: time.Minute}) // it leaves
	})
	want["lockmw_waiting{name=pay}"] = 1
	eventually(t, registry, want)
	gone()
	left.Wait()
	want["lockmw_waiting{name=pay}"] = 0
	want["lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=refused}"] = 2
	want["lockmw_refused_total{mode=exclusive,name=pay,reason=CANCELED}"] = 1
	eventually(t, registry, want)

	// A waiter to whom no message would come is handed nothing: it asks again. The one that left has had the Locker subscribe.
	await.Within(t, 20*time.Second, "messages arrive", func() bool { return locks.Stats().Subscribed })
	next := make(chan *lockmw.Lease)
	go func() {
		_, lease, err := locks.Acquire(context.Background(), "42", lockmw.Policy{Name: "pay", Prefix: "order:", Permits: 2, Wait: time.Minute, RetryInterval: time.Minute})
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	await.Within(t, 20*time.Second, "it stands in Redis's queue, and knows that", func() bool {
		info, err := locks.Inspect(context.Background(), "order:42")
		return err == nil && info.Waiting == 1 && seam.Waiting(locks, "order:42") == 1
	})
	release(t, lease)
	release(t, <-next)
	begun(want, "pay", "permits")
	want["lockmw_hold_duration_seconds{mode=exclusive,name=pay}"] = 1
	want["lockmw_hold_duration_seconds{mode=permits,name=pay}"] = 1
	want["lockmw_acquire_duration_seconds{mode=permits,name=pay,outcome=acquired}"] = 1
	want["lockmw_handovers_total{mode=permits,name=pay}"] = 1
	want["lockmw_held{name=pay}"] = 0
	eventually(t, registry, want, "lockmw_renewals_total{outcome=renewed}") // on a busy machine: after 100 ms

	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// heldOnce is what is counted of a lock called pay that was held once.
func heldOnce() map[string]float64 {
	want := fresh()
	begun(want, "pay", "exclusive")
	want["lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=acquired}"] = 1
	want["lockmw_hold_duration_seconds{mode=exclusive,name=pay}"] = 1
	want["lockmw_held{name=pay}"] = 0
	want["lockmw_waiting{name=pay}"] = 0
	return want
}

// A lock that Redis had forgotten when it was given back, and nobody waited for that (Policy.AsyncRelease), was held once.
func TestALossBesideAReleaseIsOneHold(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	c := redistest.Embedded(t).Client(t)
	locks, err := lockmw.New(c, lockprom.New(registry))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close(context.Background()) }()
	lease := must(t, locks, "42", lockmw.Policy{Name: "pay", Wait: time.Second, AsyncRelease: true})
	c.Del(context.Background(), "lock:{42}")
	release(t, lease)
	want := heldOnce()
	want["lockmw_lost_total{mode=exclusive,name=pay}"] = 1
	eventually(t, registry, want)
}

// What package fence refuses, and what it lets pass unguarded, is counted.
func TestWritesOfFence(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	locks := locktest.New(t, lockprom.New(registry))
	lease := must(t, locks, "42", lockmw.Policy{Name: "pay"})
	seam.Guarded(lease, "42", errors.New("stale"))
	seam.Guarded(lease, "42", errors.New("stale"))
	seam.Guarded(lease, "42", nil)
	release(t, lease)
	want := heldOnce()
	want["lockmw_stale_writes_total{mode=exclusive,name=pay}"] = 2
	want["lockmw_unfenced_writes_total{mode=exclusive,name=pay}"] = 1
	eventually(t, registry, want)
}

// A call of Do that gets the answer of another one needs no lock, and is told as an outcome of its own.
func TestAnAnswerOfOthers(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	locks := locktest.New(t, lockprom.New(registry))
	f := lockmw.Flight{Policy: lockmw.Policy{Name: "pay"}, Retain: time.Minute}
	for range 2 {
		if _, _, err := lockmw.Do(context.Background(), locks, "42", f, func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		}
	}
	want := heldOnce()
	begunOfDo(want, "pay")
	want["lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=answered}"] = 1
	want["lockmw_answers_total{mode=exclusive,name=pay,outcome=kept}"] = 1
	eventually(t, registry, want)

	f.Fingerprint = []byte("another request")
	if _, _, err := lockmw.Do(context.Background(), locks, "42", f, func(context.Context) (int, error) { return 1, nil }); err == nil {
		t.Fatal("no refusal")
	}
	want["lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=refused}"] = 1
	want["lockmw_refused_total{mode=exclusive,name=pay,reason=IDEMPOTENCY_KEY_REUSED}"] = 1
	eventually(t, registry, want)
}

// An answer that is not kept is counted, beside its hold.
func TestAnAnswerThatIsNotKept(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	locks := locktest.New(t, lockprom.New(registry))
	f := lockmw.Flight{Policy: lockmw.Policy{Name: "pay"}, MaxAnswer: 1}
	if _, _, err := lockmw.Do(context.Background(), locks, "42", f, func(context.Context) (int, error) { return 1000, nil }); err == nil {
		t.Fatal("no error")
	}
	want := heldOnce()
	begunOfDo(want, "pay")
	want["lockmw_answers_total{mode=exclusive,name=pay,outcome=not_kept}"] = 1
	eventually(t, registry, want)
}

// begunOfDo adds what is there, and 0, from the first event of a name on that only Do has.
func begunOfDo(want map[string]float64, name string) {
	for _, outcome := range []string{"kept", "not_kept"} {
		want["lockmw_answers_total{mode=exclusive,name="+name+",outcome="+outcome+"}"] = 0
	}
	for _, reason := range []string{"KEY_MISSING", "KEY_REUSED", "IN_PROGRESS", "UNCERTAIN", "ANSWER_NOT_KEPT"} {
		want["lockmw_refused_total{mode=exclusive,name="+name+",reason=IDEMPOTENCY_"+reason+"}"] = 0
	}
}

func TestTwoLockersShareARegisterer(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a, b := locktest.New(t, lockprom.New(registry)), locktest.New(t, lockprom.New(registry))
	one, two := must(t, a, "k", lockmw.Policy{Prefix: "p"}), must(t, b, "k", lockmw.Policy{Prefix: "p"})
	want := fresh()
	begun(want, "p", "exclusive")
	want["lockmw_held{name=p}"], want["lockmw_waiting{name=p}"] = 2, 0
	want["lockmw_acquire_duration_seconds{mode=exclusive,name=p,outcome=acquired}"] = 2
	eventually(t, registry, want)
	release(t, one)
	release(t, two)
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	want["lockmw_held{name=p}"] = 0
	want["lockmw_hold_duration_seconds{mode=exclusive,name=p}"] = 2
	eventually(t, registry, want)
}

func TestNamesAreBounded(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	series := 0
	doortest.NamesTakeNoMemory(t, func(names int) {
		got := gathered(t, registry)
		const each = 5 + 6 + 10 // durations (two outcomes) and gauges, counters, and the reasons of refusals
		if n := len(got); n > 201*each+3 || series != 0 && n != series {
			t.Errorf("%d series after %d names, %d before", n, names, series)
		}
		series = len(got)
		if n := got["lockmw_acquire_duration_seconds{mode=exclusive,name=other,outcome=acquired}"]; n != float64(names-200) {
			t.Errorf("%v of %d count as other", n, names-200)
		}
	}, lockprom.New(registry))
	t.Logf("%d series", series)
}

func TestTheObserverCostsFewAllocations(t *testing.T) {
	doortest.AddsFewAllocations(t, lockprom.New(prometheus.NewRegistry()))
}

func TestWrongRegisterers(t *testing.T) {
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "lockmw_redis_up", Help: "1 if Redis can be reached, as far as is known."}))
	for want, registerer := range map[string]prometheus.Registerer{"lockmw: lockprom: the registerer is nil": nil, "lockmw: lockprom: ": taken} {
		if _, err := lockmw.New(nil, lockprom.New(registerer)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func BenchmarkObserver(b *testing.B) {
	doortest.BenchmarkAdded(b, context.Background(), lockprom.New(prometheus.NewRegistry()))
}

// What policies in shadow would have come to has metrics of its own, and the others do not count such calls.
func TestMetricsOfPoliciesInShadow(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	locks, want := locktest.New(t, lockprom.New(registry)), fresh()
	pay := lockmw.Policy{Name: "pay", Prefix: "order:", Shadow: true}
	first := must(t, locks, "42", pay)
	labels := "mode=exclusive,name=pay"
	want["lockmw_held{name=pay}"], want["lockmw_waiting{name=pay}"] = 0, 0
	want["lockmw_shadow{name=pay}"] = 1
	want["lockmw_shadow_acquire_duration_seconds{"+labels+",outcome=acquired}"] = 1
	want["lockmw_shadow_incomplete_total{"+labels+"}"] = 0
	for _, mixed := range []string{"false", "true"} {
		want["lockmw_shadow_overlaps_total{mixed="+mixed+","+labels+"}"] = 0
	}
	for _, reason := range []string{"LOCK_BUSY", "LOCK_WAIT_TIMEOUT", "LOCK_COOLDOWN", "LOCK_QUEUE_FULL", "LOCK_MISUSE", "CANCELED"} {
		want["lockmw_shadow_refused_total{"+labels+",reason="+reason+"}"] = 0
	}
	eventually(t, registry, want)

	second := must(t, locks, "42", pay)
	want["lockmw_shadow_acquire_duration_seconds{"+labels+",outcome=refused}"] = 1
	want["lockmw_shadow_refused_total{"+labels+",reason=LOCK_BUSY}"] = 1
	want["lockmw_shadow_overlaps_total{mixed=false,"+labels+"}"] = 1
	eventually(t, registry, want)
	release(t, first)
	release(t, second)

	locktest.Down(t, locks)
	release(t, must(t, locks, "42", pay))
	await.Within(t, 20*time.Second, "a forecast is incomplete while Redis is away", func() bool {
		return gathered(t, registry)["lockmw_shadow_incomplete_total{"+labels+"}"] >= 1 // of this one, and of those that were giving back their virtual locks
	})
}

// A Locker with live settings tells which names run without their lock, and how its sources are.
func TestMetricsOfLiveSettings(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{"*/pay": {"off": true}, "*/m*": {"wait": "1s", "ttl": "1s"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	locks := locktest.New(t, lockprom.New(registry), lockmw.WithSettings(lockmw.SettingsFile(file)), lockmw.AllowOff())
	for _, name := range []string{"pay", "mail", "more", "other"} {
		release(t, must(t, locks, name, lockmw.Policy{Name: name}))
	}
	release(t, must(t, locks, "short", lockmw.Policy{Name: "mini", TTL: 500 * time.Millisecond}))
	if err := locks.WithLocks(context.Background(), []string{"a", "b"}, lockmw.Policy{Name: "pay"}, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	got := gathered(t, registry)
	for name, want := range map[string]float64{
		"lockmw_off{name=pay}": 1, "lockmw_off{name=mail}": 0, "lockmw_off{name=other}": 0,
		"lockmw_settings{field=off}": 1, "lockmw_settings{field=wait}": 1, "lockmw_settings{field=ttl}": 1, "lockmw_settings{field=maxHold}": 0,
		"lockmw_settings_refused{}": 1,
		"lockmw_acquire_duration_seconds{mode=exclusive,name=pay,outcome=off}": 2, // several keys are one call
		"lockmw_failed_open_total{mode=exclusive,name=pay}":                    0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %t), want %v", name, v, ok, want)
		}
	}
	if age, ok := got["lockmw_settings_age_seconds{source=file}"]; !ok || age < 0 || age > 60 {
		t.Errorf("the age is %v (there: %t)", age, ok)
	}
}
