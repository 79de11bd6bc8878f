package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// A refusal is a way in which Redis says no.
type refusal struct {
	word string   // in its answer
	or   []string // other texts that the error may have in place of word
	how  string   // for the report
	// provoke makes a server say it. It returns a client for the Locker, and
	// what ends the trouble; nil: nothing does.
	provoke func(t *testing.T) (client redis.UniversalClient, mend func())
}

// Whatever Redis refuses for, the work does not run, and every door says so
// in the documented way.
func TestRefusalsAreAnswered(t *testing.T) {
	besideOthers(t)
	var mu sync.Mutex
	var seen []string
	t.Run("each", func(t *testing.T) { // returns when all that run beside each other have ended
		for _, r := range refusals() {
			t.Run(strings.ReplaceAll(r.word, " ", "_"), func(t *testing.T) {
				t.Parallel()
				r.check(t)
				if !t.Failed() {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, r.word+" ("+r.how+")")
				}
			})
		}
	})
	want := len(refusals())
	record.Add(t, record.Row{
		Check: 14, Name: "refusals of Redis",
		Goal:   "each of 14 and MASTERDOWN: ErrUnavailable, HTTP 503, gRPC Unavailable; handler runs 0",
		Figure: fmt.Sprintf("%d of %d", len(seen), want),
		Met:    len(seen) == want && want == 15,
		Note:   "provoked on real servers unless said: " + strings.Join(slices.Sorted(slices.Values(seen)), "; "),
	})
}

// doors are a route and a method under one lock, and who came through.
type doors struct {
	http http.Handler
	grpc grpc.UnaryServerInterceptor
	runs int

	mu      sync.Mutex
	refused []error
}

// A method that this program knows, or the interceptor would warn.
const method = grpc_health_v1.Health_Check_FullMethodName

func newDoors(t *testing.T, client redis.UniversalClient) *doors {
	t.Helper()
	d := &doors{}
	locker := testenv.Open(t, client, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventRefused {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.refused = append(d.refused, e.Err)
		}
	}))
	key, policy := keyfunc.Const("k"), lockmw.Policy{TTL: ttl, Wait: 200 * time.Millisecond}
	d.http = httplock.Middleware(locker, key, policy)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { d.runs++ }))
	d.grpc = grpclock.UnaryServerInterceptor(locker, grpclock.Rules{method: {Key: key, Policy: policy}})
	return d
}

func (d *doors) post() *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.http.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	return w
}

func (d *doors) call() error {
	_, err := d.grpc(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
		d.runs++
		return nil, nil
	})
	return err
}

// told returns the refusals that were told of since it was called last.
func (d *doors) told() (refused []error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	refused, d.refused = d.refused, nil
	return refused
}

// isBehind reports whether err says r.
func (r refusal) isBehind(err error) bool {
	return slices.ContainsFunc(append(r.or, r.word), func(text string) bool { return strings.Contains(err.Error(), text) })
}

func (r refusal) check(t *testing.T) {
	client, mend := r.provoke(t)
	d := newDoors(t, client)
	var refused []error
	for range 3 { // who was not answered in time is refused for that: the server may be too busy to say more
		r.ask(t, d)
		refused = d.told()
		if !slices.ContainsFunc(refused, func(err error) bool { return !r.isBehind(err) }) {
			break
		}
	}
	if len(refused) != 2 {
		t.Errorf("%d refusals, want 2", len(refused))
	}
	for _, err := range refused {
		if !errors.Is(err, lockmw.ErrUnavailable) || !r.isBehind(err) {
			t.Errorf("error = %v, want ErrUnavailable and %s", err, r.word)
		}
	}
	if mend == nil {
		return
	}
	mend()
	await.Within(t, patience, "requests are served again", func() bool { return d.post().Code == http.StatusOK && d.call() == nil })
	if d.runs < 2 {
		t.Errorf("the handler ran %d times, want two at least", d.runs)
	}
}

// ask goes once to each door, which must refuse.
func (r refusal) ask(t *testing.T, d *doors) {
	t.Helper()
	w := d.post()
	var problem struct{ Code string }
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Errorf("%s: %v", w.Body, err)
	}
	if w.Code != http.StatusServiceUnavailable || problem.Code != "LOCK_BACKEND_UNAVAILABLE" || w.Header().Get("Retry-After") == "" {
		t.Errorf("HTTP: %d %q, Retry-After %q", w.Code, problem.Code, w.Header().Get("Retry-After"))
	}
	if text := w.Body.String(); strings.Contains(text, r.word) {
		t.Errorf("the client is shown what Redis said: %s", text)
	}
	if err := d.call(); status.Code(err) != codes.Unavailable {
		t.Errorf("gRPC: %v, want Unavailable", err)
	}
	if d.runs > 0 {
		t.Errorf("the handler ran %d times", d.runs)
	}
}
