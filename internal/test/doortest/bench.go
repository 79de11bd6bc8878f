package doortest

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What a door costs is measured over a store that grants everything at once,
// with a key of three values. These are the requests.
const (
	// bare goes through the framework alone.
	bare = "bare"
	// byKey goes through the door until the key is there, and on without a lock.
	byKey = "key"
	// byHand goes through the framework, and its handler takes the lock that
	// the door would take, and gives it back.
	byHand = "hand"
	// byDoor goes through the door.
	byDoor = "door"
)

// doorAllocs is how many allocations a door may cost beside its lock.
const doorAllocs = 12

// costs returns a function that makes one of the requests.
func costs(tb testing.TB, fw Framework, request string) (run func()) {
	tb.Helper()
	locks := Instant(tb)
	key := keyfunc.MustParse("order:{param.id}:{query.sku}:{header.X-User}")
	route := Route{
		Method: http.MethodPost, Path: "/orders/{id}/pay",
		Locks: locks, Key: key, Policy: lockmw.Policy{Prefix: prefix}, Handle: fine,
	}
	switch request {
	case bare:
		route.Bare = true
	case byKey:
		route.Key = func(r keyfunc.Request) (string, error) {
			if made, err := key(r); err != nil {
				return made, err
			}
			return "", keyfunc.Skip
		}
	case byHand:
		route.Bare = true
		route.Handle = func(x *Exchange) error {
			_, lease, err := locks.Acquire(x.R.Context(), "order:"+id+":7:ann", route.Policy)
			if err != nil {
				return err
			}
			return lease.Release(context.Background())
		}
	}
	handler := fw.Serve(route)
	r := httptest.NewRequest(http.MethodPost, payPath+"?sku=7", nil)
	r.Header.Set("X-User", "ann")
	w := &nowhere{header: make(http.Header)}
	if handler.ServeHTTP(w, r); w.status >= http.StatusMultipleChoices {
		tb.Fatalf("%s: status %d", request, w.status)
	}
	return func() { handler.ServeHTTP(w, r) }
}

// Benchmark measures the requests, and how much longer the door takes than the
// framework alone, and than the framework and the lock.
func Benchmark(b *testing.B, fw Framework) {
	took := make(map[string]time.Duration)
	for _, request := range []string{bare, byKey, byHand, byDoor} {
		b.Run(request, func(b *testing.B) {
			run := costs(b, fw, request)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			took[request] = b.Elapsed() / time.Duration(b.N)
			if request == byDoor && len(took) == 4 {
				b.ReportMetric(float64(took[byDoor]-took[bare]), "ns-bare")
				b.ReportMetric(float64(took[byDoor]-took[byHand]), "ns-hand")
			}
		})
	}
}

// CheckAllocations checks how many allocations a door costs beside its lock.
func CheckAllocations(t *testing.T, fw Framework) {
	allocs := make(map[string]float64)
	for _, request := range []string{bare, byKey, byHand, byDoor} {
		run := costs(t, fw, request)
		allocs[request] = math.Inf(1)
		for range 5 { // on a busy machine, the collector empties the pools in between; the least has no such loss
			allocs[request] = min(allocs[request], testing.AllocsPerRun(1000, run))
		}
	}
	t.Logf("allocations: %v", allocs)
	if got := allocs[byDoor] - allocs[byHand]; got > doorAllocs {
		t.Errorf("the door costs %v allocations beside its lock, want at most %d", got, doorAllocs)
	}
}

// nowhere is a response that nobody gets.
type nowhere struct {
	header http.Header
	status int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w *nowhere) WriteHeader(status int)      { w.status = status }
