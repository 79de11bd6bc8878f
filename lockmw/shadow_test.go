package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// An arrival is one call: when it comes, for how long it works, and what else there is to it.
type arrival struct {
	at, works time.Duration
	policy    lockmw.Policy
	keys      []string      // "k" if there are none
	deadline  time.Duration // of its context, from the begin on; 0: none
	leaves    time.Duration // when its client leaves, from the begin on; 0: never
	fails     bool          // its work fails
}

// makes runs the calls, each with the Locker that its place says, and returns what came of them as enforced says it.
func makes(t *testing.T, lockers []*lockmw.Locker, shadow bool, calls []arrival) []string {
	t.Helper()
	var mu sync.Mutex
	var got []string
	var all sync.WaitGroup
	for i, c := range calls {
		all.Go(func() {
			time.Sleep(c.at)
			ctx, end := context.WithCancel(context.Background())
			defer end()
			if c.deadline > 0 {
				bounded, free := context.WithTimeout(ctx, c.deadline)
				defer free()
				ctx = bounded
			}
			if c.leaves > 0 {
				time.AfterFunc(c.leaves, end)
			}
			p := c.policy
			p.Shadow = shadow
			keys := c.keys
			if keys == nil {
				keys = []string{"k"}
			}
			came := time.Now()
			_, lease, err := lockers[i%len(lockers)].AcquireAll(ctx, keys, p)
			waited := time.Since(came)
			if err == nil {
				time.Sleep(c.works)
				if c.fails {
					lease.MarkFailed()
				}
				err2 := lease.Release(context.Background())
				if err2 != nil {
					t.Errorf("Release = %v", err2)
				}
			}
			told, _ := lockmw.RefusalOf(err)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, outcomeOf(err == nil, waited, told.Code))
			if shadow && (err != nil || waited > 0 || !lease.Shadow() || lease.Fence() != 0) {
				t.Errorf("call %d was held up for %v, or got %v, %v", i, waited, lease, err)
			}
		})
	}
	all.Wait()
	slices.Sort(got)
	return got
}

func outcomeOf(had bool, waited time.Duration, code string) string {
	return fmt.Sprintf("had %v, %q, after %v", had, code, waited.Round(10*time.Millisecond)) // retries have jitter
}

// forecasts are what the events tell, as makes says it.
func (e *events) forecasts() []string {
	var got []string
	for _, ev := range e.of(lockmw.EventShadowAcquired) {
		got = append(got, outcomeOf(true, ev.Waited, ""))
	}
	for _, ev := range e.of(lockmw.EventShadowRefused) {
		got = append(got, outcomeOf(false, ev.Waited, ev.Reason))
	}
	slices.Sort(got)
	return got
}

// For the same arrivals the forecast is what enforcing shows: who waits, for how long, and who is refused for what reason.
func TestTheForecastIsWhatEnforcingShows(t *testing.T) {
	const s = time.Second
	patient := lockmw.Policy{Prefix: "order:", Wait: time.Minute, RetryInterval: time.Minute}
	impatient := lockmw.Policy{Prefix: "order:"}
	with := func(p lockmw.Policy, change func(p *lockmw.Policy)) lockmw.Policy { change(&p); return p }
	for name, calls := range map[string][]arrival{
		"nobody meets": {{at: 0, works: s, policy: impatient}, {at: 2 * s, works: s, policy: impatient}},
		// The second one works from 1 to 2 and would hold the lock from 10 to 11: only by that the third one would wait until 11.
		"short work behind long work":           {{works: 10 * s, policy: patient}, {at: s, works: s, policy: patient}, {at: 1500 * time.Millisecond, works: s, policy: patient}},
		"one attempt":                           {{works: 3 * s, policy: impatient}, {at: s, works: 5 * s, policy: impatient}, {at: 4 * s, works: s, policy: impatient}},
		"a wait that is too short":              {{works: 3 * s, policy: patient}, {at: s, works: s, policy: with(patient, func(p *lockmw.Policy) { p.Wait = s })}},
		"a deadline":                            {{works: 5 * s, policy: patient}, {at: s, works: s, policy: patient, deadline: 2 * s}},
		"a client that leaves while it works":   {{works: 5 * s, policy: patient}, {at: s, works: 3 * s, policy: patient, leaves: 2 * s}},
		"readers and a writer":                  {{works: 2 * s, policy: with(patient, func(p *lockmw.Policy) { p.Mode = lockmw.Shared })}, {at: 500 * time.Millisecond, works: s, policy: with(patient, func(p *lockmw.Policy) { p.Mode = lockmw.Shared })}, {at: s, works: s, policy: patient}},
		"permits":                               {{works: 4 * s, policy: with(patient, func(p *lockmw.Policy) { p.Permits = 2 })}, {works: 6 * s, policy: with(patient, func(p *lockmw.Policy) { p.Permits = 2 })}, {at: s, works: s, policy: with(patient, func(p *lockmw.Policy) { p.Permits = 2 })}},
		"MinHold":                               {{works: s, policy: with(impatient, func(p *lockmw.Policy) { p.MinHold = 5 * s })}, {at: 2 * s, works: s, policy: impatient}},
		"MinHold, and work that fails":          {{works: s, policy: with(impatient, func(p *lockmw.Policy) { p.MinHold = 5 * s }), fails: true}, {at: 2 * s, works: s, policy: impatient}},
		"a crowd":                               {{works: s, policy: patient}, {at: 10, works: s, policy: patient}, {at: 20, works: s, policy: patient}, {at: 30, works: s, policy: patient}, {at: 40, works: s, policy: patient}},
		"several keys":                          {{works: 3 * s, policy: patient, keys: []string{"a"}}, {at: s, works: 4 * s, policy: patient, keys: []string{"b", "a"}}, {at: 2 * s, works: s, policy: patient, keys: []string{"b"}}},
		"several keys, one of which is not had": {{works: 3 * s, policy: impatient, keys: []string{"a"}}, {at: s, works: 4 * s, policy: impatient, keys: []string{"b", "a"}}, {at: 2 * s, works: s, policy: impatient, keys: []string{"b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *redistest.Mini) {
				seen := new(events)
				var lockers []*lockmw.Locker
				for range 3 {
					lockers = append(lockers, testenv.Open(t, m.Client(t), seen.option()))
				}
				want := makes(t, lockers, false, calls)
				time.Sleep(time.Minute)
				makes(t, lockers, true, calls)
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := seen.forecasts(); !slices.Equal(got, want) {
					t.Errorf("the forecast is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if n := len(seen.of(lockmw.EventShadowIncomplete)); n > 0 {
					t.Errorf("%d forecasts are incomplete", n)
				}
			})
		})
	}
}

// Nobody is kept from the lock by those in shadow, nor they by its holder, whom they tell of.
func TestAShadowAndAHolderAreNotInEachOthersWay(t *testing.T) {
	inBubble(t, func(t *testing.T, m *redistest.Mini) {
		seen := new(events)
		tries, enforces := testenv.Open(t, m.Client(t), seen.option()), testenv.Open(t, m.Client(t))
		_, shadow, err := tries.Acquire(context.Background(), "k", lockmw.Policy{Shadow: true})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		lease := mustAcquire(t, enforces, "k", lockmw.Policy{}) // one attempt
		time.Sleep(10 * time.Second)
		if !shadow.Valid() || !shadow.Shadow() || shadow.Fence() != 0 || !shadow.ValidUntil().IsZero() || lease.Shadow() || (*lockmw.Lease)(nil).Shadow() {
			t.Errorf("the lease in shadow is %v, the other one %v", shadow, lease)
		}
		if got, want := shadow.String(), `lease of "k" for "": in shadow, there is no lock`; got != want && !strings.Contains(got, "in shadow, there is no lock") {
			t.Errorf("it reads %s, want %s", got, want)
		}
		if err := shadow.Release(context.Background()); err != nil || shadow.Valid() {
			t.Errorf("Release = %v, valid after it: %v", err, shadow.Valid())
		}
		if cause := context.Cause(shadow.Context()); !errors.Is(cause, lockmw.ErrReleased) {
			t.Errorf("its context ended by %v", cause)
		}
		synctest.Wait()
		if told := seen.of(lockmw.EventShadowOverlap); len(told) != 1 || !told[0].Mixed || told[0].Key != "k" {
			t.Errorf("overlaps: %+v, want one, beside somebody who is not in shadow", told)
		}
		if names := tries.Stats().Names; !names[""].Shadow || !names[""].Mixed {
			t.Errorf("Stats = %+v, want that the policy is in shadow, and others are not", names)
		}
		mustRelease(t, lease)
		_, shadow, _ = tries.Acquire(context.Background(), "k", lockmw.Policy{Shadow: true})
		synctest.Wait()
		if told := seen.of(lockmw.EventShadowAcquired); len(told) != 2 || !told[1].Mixed {
			t.Errorf("forecasts: %+v, want two, of which the second one is mixed", told)
		}
		_ = shadow.Release(context.Background())
		time.Sleep(16 * time.Minute)
		if names := tries.Stats().Names; len(names) != 0 {
			t.Errorf("Stats = %+v, want that nothing is in shadow any more", names)
		}
	})
}

// Overlaps are those of the work as it ran: who would wait virtually does not, and its virtual lock overlaps with nobody.
func TestOverlapsAreThoseOfTheWork(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		calls []arrival
		want  int
	}{
		"one after the other, while the virtual lock is late": {[]arrival{{works: 10 * s}, {at: s, works: s}, {at: 11 * s, works: s}, {at: 13 * s, works: s}}, 1},
		"three at a time":                           {[]arrival{{works: 5 * s}, {at: s, works: 5 * s}, {at: 2 * s, works: 5 * s}}, 2},
		"at the same time":                          {[]arrival{{works: s}, {works: s}}, 1},
		"long work, which is noted again and again": {[]arrival{{works: 60 * s}, {at: 55 * s, works: s}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *redistest.Mini) {
				seen := new(events)
				lockers := []*lockmw.Locker{testenv.Open(t, m.Client(t), seen.option()), testenv.Open(t, m.Client(t), seen.option())}
				for i := range tc.calls {
					tc.calls[i].policy.Wait = time.Minute
				}
				makes(t, lockers, true, tc.calls)
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := seen.of(lockmw.EventShadowOverlap); len(got) != tc.want {
					t.Errorf("overlaps: %+v, want %d", got, tc.want)
				}
			})
		})
	}
}

// How the context ends after the release says nothing: net/http ends that of a request with its handler.
func TestTheEndOfAContextAfterTheReleaseEndsNoForecast(t *testing.T) {
	inBubble(t, func(t *testing.T, m *redistest.Mini) {
		seen := new(events)
		l := testenv.Open(t, m.Client(t), seen.option())
		p := lockmw.Policy{Shadow: true, Wait: time.Minute}
		_, holds, _ := l.Acquire(context.Background(), "k", p)
		time.Sleep(time.Second)
		ctx, end := context.WithCancel(context.Background())
		_, waits, _ := l.Acquire(ctx, "k", p)
		_ = waits.Release(ctx)
		end()
		time.Sleep(5 * time.Second)
		_ = holds.Release(context.Background())
		synctest.Wait()
		if told := seen.of(lockmw.EventShadowAcquired); len(told) != 2 || told[1].Waited != 5*time.Second || !told[1].Queued {
			t.Errorf("forecasts: %+v, want a second one that waits for 5 s", told)
		}
	})
}

// A nested call is judged as enforcing would have: it joins, or is a mistake. With the lock itself it is none, and it is not
// beside itself.
func TestNestedShadows(t *testing.T) {
	shadow, reentrant := lockmw.Policy{Shadow: true}, lockmw.Policy{Shadow: true, Reentrant: true}
	for name, tc := range map[string]struct {
		outer, inner lockmw.Policy
		keys         []string // of inner
		misuse       bool
		had          int // forecasts of locks that are had
	}{
		"twice":                               {shadow, shadow, []string{"k"}, true, 1},
		"twice, reentrant":                    {shadow, reentrant, []string{"k"}, false, 1},
		"another key":                         {shadow, shadow, []string{"other"}, false, 2},
		"several, of which one is held":       {shadow, shadow, []string{"other", "k"}, true, 1},
		"several, and reentrant":              {shadow, reentrant, []string{"other", "k"}, false, 2},
		"a lock under a shadow":               {shadow, lockmw.Policy{}, []string{"k"}, true, 1},
		"a lock under a shadow, reentrant":    {shadow, lockmw.Policy{Reentrant: true}, []string{"k"}, false, 1},
		"a shadow under a lock":               {lockmw.Policy{}, shadow, []string{"k"}, true, 0},
		"a shadow under a lock, reentrant":    {lockmw.Policy{}, reentrant, []string{"k"}, false, 0},
		"a reader that would become a writer": {lockmw.Policy{Shadow: true, Mode: lockmw.Shared}, reentrant, []string{"k"}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *redistest.Mini) {
				seen := new(events)
				l := testenv.Open(t, m.Client(t), seen.option())
				ctx, outer, err := l.Acquire(context.Background(), "k", tc.outer)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(500 * time.Millisecond)
				_, inner, err := l.AcquireAll(ctx, tc.keys, tc.inner)
				if err != nil || inner.Shadow() != tc.inner.Shadow {
					t.Fatalf("nested: %v, %v", inner, err)
				}
				time.Sleep(3 * time.Second)
				mustRelease(t, inner)
				mustRelease(t, outer)
				time.Sleep(time.Minute)
				synctest.Wait()
				refused, overlaps := seen.of(lockmw.EventShadowRefused), seen.of(lockmw.EventShadowOverlap)
				if len(refused) == 1 != tc.misuse || tc.misuse && (refused[0].Reason != lockmw.CodeMisuse || refused[0].Key != "k") || len(refused) > 1 {
					t.Errorf("refused: %+v, want a mistake: %v", refused, tc.misuse)
				}
				if had := seen.of(lockmw.EventShadowAcquired); len(had) != tc.had || len(overlaps) > 0 {
					t.Errorf("had %+v, want %d, and no overlaps: %+v", had, tc.had, overlaps)
				}
			})
		})
	}
}

// What a shadow cannot try is refused as a mistake of the program, and so is any other mistake.
func TestMistakesInShadowAreMistakes(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	work := func(context.Context) error { return nil }
	for name, of := range map[string]func() error{
		"Once": func() error {
			_, err := l.Once(context.Background(), "k", lockmw.Policy{Shadow: true}, work)
			return err
		},
		"Do": func() error {
			_, _, err := lockmw.Do(context.Background(), l, "k", lockmw.Flight{Policy: lockmw.Policy{Shadow: true}}, func(context.Context) (int, error) { return 0, nil })
			return err
		},
		"Leader": func() (err error) {
			defer func() {
				if text := fmt.Sprint(recover()); strings.Contains(text, "Shadow") {
					err = lockmw.ErrInvalidPolicy
				}
			}()
			l.Leader("k", lockmw.Policy{Shadow: true})
			return nil
		},
		"a quorum": func() error {
			var clients []redis.UniversalClient
			for range 3 {
				clients = append(clients, redistest.Embedded(t).Client(t))
			}
			q, err := lockmw.NewQuorum(clients, lockmw.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = q.Close(context.Background()) }()
			_, _, err = q.Acquire(context.Background(), "k", lockmw.Policy{Shadow: true})
			return err
		},
		"a field": func() error {
			_, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{Shadow: true, TTL: 1})
			return err
		},
	} {
		if err := of(); !errors.Is(err, lockmw.ErrInvalidPolicy) {
			t.Errorf("%s: %v, want ErrInvalidPolicy", name, err)
		}
	}
	if _, _, err := l.Acquire(context.Background(), "{", lockmw.Policy{Shadow: true}); !errors.Is(err, lockmw.ErrInvalidKey) {
		t.Errorf("a bad key: %v", err)
	}
	if _, _, err := l.AcquireAll(context.Background(), []string{"a", ""}, lockmw.Policy{Shadow: true}); !errors.Is(err, lockmw.ErrInvalidKey) {
		t.Errorf("an empty key: %v", err)
	}
}

// A panic under a shadow, an error, and MaxHold end it like any lease.
func TestAShadowEndsAsALeaseDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, m *redistest.Mini) {
		l := testenv.Open(t, m.Client(t))
		ctx, lease, err := l.Acquire(context.Background(), "k", lockmw.Policy{Shadow: true, MaxHold: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrMaxHold) || lease.Valid() {
			t.Errorf("after MaxHold: %v, valid: %v", cause, lease.Valid())
		}
		if err := lease.Release(ctx); err != nil {
			t.Errorf("Release = %v", err)
		}
		got, err := lockmw.WithLock(context.Background(), l, "k", lockmw.Policy{Shadow: true}, func(ctx context.Context) (bool, error) {
			inner, _ := lockmw.FromContext(ctx)
			return inner.Shadow(), nil
		})
		if !got || err != nil {
			t.Errorf("WithLock = %v, %v", got, err)
		}
	})
}

// Close ends forecasts, leaves nothing in Redis, and no work is told to stop. A shadow is no reason to refuse work after it.
func TestCloseEndsForecasts(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, err := lockmw.New(c, lockmw.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		p := lockmw.Policy{Shadow: true, Wait: time.Minute}
		var leases []*lockmw.Lease
		for range 20 {
			_, lease, err := l.Acquire(context.Background(), key, p)
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, lease)
		}
		await.Until(t, "one has the virtual lock", func() bool { return c.Exists(context.Background(), "lock:shadow:{"+key+"}").Val() == 1 })
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("Close = %v", err)
		}
		for _, lease := range leases {
			if !lease.Valid() || lease.Context().Err() != nil || lease.Release(context.Background()) != nil {
				t.Errorf("after Close: %v", lease)
			}
		}
		if _, lease, err := l.Acquire(context.Background(), key, p); err != nil || lease.Release(context.Background()) != nil {
			t.Errorf("after Close: %v", err)
		}
		noKeys(t, c, key, 20*time.Second) // the works are forgotten within seconds
	})
}

// The log says each minute that a policy is in shadow, while it is used, also where nobody has given a logger; and so do events.
func TestAPolicyInShadowIsShouted(t *testing.T) {
	inBubble(t, func(t *testing.T, m *redistest.Mini) {
		var log logBuffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		defer slog.SetDefault(before)
		seen := new(events)
		l, err := lockmw.New(m.Client(t), seen.option())
		if err != nil {
			t.Fatal(err)
		}
		uses := func() {
			if err := l.WithLock(context.Background(), "k", lockmw.Policy{Name: "pay", Shadow: true}, func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		for range 9 { // at 0, 20, … 160 s
			uses()
			time.Sleep(20 * time.Second)
		}
		time.Sleep(time.Hour)
		uses()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		text := strings.Join(log.lines(), "\n")
		if got := strings.Count(text, `"lockmw: the policy runs in shadow: nobody is locked out" name=pay`); got != 4 || len(log.lines()) != 4 {
			t.Errorf("%d such lines, want 4, and no others:\n%s", got, text)
		}
		if told := seen.of(lockmw.EventInShadow); len(told) != 4 || told[0].Name != "pay" {
			t.Errorf("told %+v, want four times", told)
		}
	})
}
