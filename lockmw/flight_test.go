package lockmw_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// flight waits for others, and keeps no answer for those who come later.
var flight = lockmw.Flight{Policy: lockmw.Policy{TTL: 3 * time.Second, Wait: 30 * time.Second}}

// retained is flight with an answer that is kept.
func retained(d time.Duration) lockmw.Flight {
	f := flight
	f.Retain = d
	return f
}

// A maker makes answers, each once for each time that it runs.
type maker struct {
	runs, inside atomic.Int64
	takes        time.Duration
}

func (m *maker) make(ctx context.Context) (string, error) {
	if m.inside.Add(1) > 1 {
		return "", errors.New("two at a time")
	}
	defer m.inside.Add(-1)
	n := m.runs.Add(1)
	select {
	case <-time.After(m.takes):
		return fmt.Sprint("answer ", n), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// All who ask while the answer is made get it, in whatever process, and whoever comes later has it made anew.
func TestOneAnswerForAll(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
		m := &maker{takes: 500 * time.Millisecond}
		for round := range 3 {
			want := fmt.Sprint("answer ", round+1)
			var owners atomic.Int64
			var all sync.WaitGroup
			for i := range 60 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 5 * time.Millisecond)
					answer, shared, err := lockmw.Do(context.Background(), lockers[i%3], key, flight, m.make)
					if err != nil || answer != want {
						t.Errorf("Do = %q, %v, want %q", answer, err, want)
					}
					if !shared {
						owners.Add(1)
					}
				})
			}
			all.Wait()
			if n := owners.Load(); n != 1 {
				t.Errorf("%d calls say that they have made the answer", n)
			}
		}
		noKeys(t, s.Client(t), key, 11*time.Second)
	})
}

// Whoever comes when the answer is there comes after it, also while the one who has made it tells that the lock is free.
func TestWhoComesAfterTheAnswerHasItMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		released, told := make(chan struct{}), make(chan struct{})
		var releases atomic.Int64
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
			if e.Kind == lockmw.EventReleased && releases.Add(1) == 1 {
				close(released)
				<-told
			}
		}))
		m := new(maker)
		var first sync.WaitGroup
		first.Go(func() {
			if answer, _, err := lockmw.Do(context.Background(), l, key, flight, m.make); err != nil || answer != "answer 1" {
				t.Errorf("Do = %q, %v", answer, err)
			}
		})
		<-released
		if answer, shared, err := lockmw.Do(context.Background(), l, key, flight, m.make); err != nil || answer != "answer 2" || shared {
			t.Errorf("behind the answer Do = %q, %v, shared %t, want one of its own", answer, err, shared)
		}
		close(told)
		first.Wait()
	})
}

// An answer is given to later calls until its time is over, by one command of whatever kind. The call that makes it sends two, and one more with
// Uncertain. What a Locker sends once, for its connections and for the texts of the scripts, is behind it.
func TestAnAnswerIsRetained(t *testing.T) {
	for name, tc := range map[string]struct {
		crash lockmw.Crash
		wait  time.Duration
		first int
	}{
		"RunAgain": {lockmw.RunAgain, 0, 2}, "RunAgain, and it may wait": {lockmw.RunAgain, time.Minute, 2},
		"Uncertain": {lockmw.Uncertain, 0, 3}, "Uncertain, and it may wait": {lockmw.Uncertain, time.Minute, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				client, proxy := proxied(t, s)
				l, m, key, f := testenv.Open(t, client), new(maker), redistest.Prefix(t), retained(time.Minute)
				f.Crash, f.Policy.Wait = tc.crash, tc.wait
				for range 2 {
					if _, _, err := lockmw.Do(context.Background(), l, key+"before", f, new(maker).make); err != nil {
						t.Fatal(err)
					}
				}
				for i, step := range []struct {
					after  time.Duration
					want   string
					shared bool
					sent   int
				}{
					{0, "answer 1", false, tc.first},
					{time.Second, "answer 1", true, 1},
					{58 * time.Second, "answer 1", true, 1},
					{2 * time.Second, "answer 2", false, tc.first},
				} {
					time.Sleep(step.after)
					synctest.Wait()
					proxy.ResetCommands()
					answer, shared, err := lockmw.Do(context.Background(), l, key, f, m.make)
					synctest.Wait() // what it has left to others is sent by then, too
					if err != nil || answer != step.want || shared != step.shared {
						t.Errorf("%d: Do = %q, %v, %v, want %q, %v", i, answer, shared, err, step.want, step.shared)
					}
					if got := proxy.Commands(); total(got) != step.sent {
						t.Errorf("%d: the commands %v, want %d", i, got, step.sent)
					}
				}
			})
		})
	}
}

// total is how many commands were counted.
func total(commands map[string]int) (n int) {
	for _, of := range commands {
		n += of
	}
	return n
}

// One answer for the callers of several Lockers costs each Locker three commands, however many its callers are: a place in the queue, a look, and a
// release. The Locker whose function runs needs no look, unless it notes that the work begins. While the work goes on, one of those who wait asks
// again in each interval of the policy, and the owner renews the lock. The subscription is not counted.
func TestAnAnswerForManyCostsThreeCommandsALocker(t *testing.T) {
	const lockers, callers = 4, 40
	for name, tc := range map[string]struct {
		crash lockmw.Crash
		takes time.Duration
		owner int
		polls int // of each of the others, at most
	}{
		"RunAgain": {lockmw.RunAgain, 50 * time.Millisecond, 2, 0}, "Uncertain": {lockmw.Uncertain, 50 * time.Millisecond, 3, 0},
		"the work takes long": {lockmw.RunAgain, 850 * time.Millisecond, 2, 8},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				admin := s.Client(t)
				for _, text := range redisstore.Scripts() {
					admin.ScriptLoad(context.Background(), text)
				}
				var all []*lockmw.Locker
				var proxies []*faultproxy.Proxy
				for range lockers {
					client, proxy := proxied(t, s)
					all, proxies = append(all, testenv.Open(t, client)), append(proxies, proxy)
				}
				f, key := retained(time.Minute), redistest.Prefix(t)
				f.Crash = tc.crash
				askTogether(t, all, callers, key+"before", f, tc.takes) // each Locker has its connections and its subscription
				for _, proxy := range proxies {
					proxy.ResetCommands()
				}
				askTogether(t, all, callers, key, f, tc.takes)
				owners := 0
				for i, proxy := range proxies {
					sent := proxy.Commands()
					delete(sent, "PING") // of the subscription
					n := total(sent)
					if n == tc.owner {
						owners++
					}
					if n != tc.owner && (n < 3 || n > 3+tc.polls) {
						t.Errorf("Locker %d sent %v, want 3 commands and %d more at most", i, sent, tc.polls)
					}
				}
				if tc.owner != 3 && owners != 1 {
					t.Errorf("%d Lockers sent %d commands, want the one alone whose function ran", owners, tc.owner)
				}
			})
		})
	}
}

// askTogether has so many callers in each Locker ask at the same time, and waits until nothing is left to be sent.
func askTogether(t *testing.T, lockers []*lockmw.Locker, callers int, key string, f lockmw.Flight, takes time.Duration) {
	t.Helper()
	m := &maker{takes: takes}
	var all sync.WaitGroup
	for _, l := range lockers {
		for range callers {
			all.Go(func() {
				if answer, _, err := lockmw.Do(context.Background(), l, key, f, m.make); answer != "answer 1" || err != nil {
					t.Errorf("Do = %q, %v", answer, err)
				}
			})
		}
	}
	all.Wait()
	time.Sleep(10 * time.Second) // what is removed in the background is removed by then
}

// An error is its caller's: the next one runs the function, one at a time.
func TestAnErrorIsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
		broken := errors.New("broken")
		var runs, failed, answered atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				answer, _, err := lockmw.Do(context.Background(), lockers[i%2], key, flight, func(context.Context) (int, error) {
					time.Sleep(100 * time.Millisecond)
					if n := runs.Add(1); n <= 3 {
						return 0, broken
					}
					return 7, nil
				})
				switch {
				case errors.Is(err, broken):
					failed.Add(1)
				case err == nil && answer == 7:
					answered.Add(1)
				default:
					t.Errorf("Do = %d, %v", answer, err)
				}
			})
		}
		all.Wait()
		if runs.Load() != 4 || failed.Load() != 3 || answered.Load() != 17 {
			t.Errorf("%d runs, %d errors, %d answers, want 4, 3, 17", runs.Load(), failed.Load(), answered.Load())
		}
	})
}

// An answer is to one fingerprint.
func TestAnAnswerToAnotherRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		with := func(f lockmw.Flight, request string) lockmw.Flight {
			f.Fingerprint = []byte(request)
			return f
		}
		m := &maker{takes: 100 * time.Millisecond}
		if _, _, err := lockmw.Do(context.Background(), l, key, with(retained(time.Minute), "one"), m.make); err != nil {
			t.Fatal(err)
		}
		for _, by := range []*lockmw.Locker{l, other} {
			answer, _, err := lockmw.Do(context.Background(), by, key, with(retained(time.Minute), "two"), m.make)
			if !errors.Is(err, lockmw.ErrOtherRequest) || answer != "" {
				t.Errorf("Do = %q, %v, want ErrOtherRequest", answer, err)
			}
			if err != nil && strings.Contains(err.Error(), base64.RawURLEncoding.EncodeToString([]byte("one"))) {
				t.Errorf("%v names a fingerprint", err)
			}
		}
		var all sync.WaitGroup
		for i := range 4 { // nothing is retained: each waits its turn
			all.Go(func() {
				if _, shared, err := lockmw.Do(context.Background(), []*lockmw.Locker{l, other}[i%2], key+"x", with(flight, fmt.Sprint(i)), m.make); err != nil || shared {
					t.Errorf("Do = %v, %v, want its own answer", shared, err)
				}
			})
		}
		all.Wait()
		if n := m.runs.Load(); n != 5 {
			t.Errorf("%d runs, want 5", n)
		}
	})
}

// Whoever asks for something else while the work is done learns when it is done that the key is taken for that.
func TestAnAnswerToAnotherRequestThatIsAwaited(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
		m := &maker{takes: time.Second}
		began := time.Now()
		var all sync.WaitGroup
		for i, request := range []string{"one", "two", "two"} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				f := retained(time.Minute)
				f.Fingerprint = []byte(request)
				answer, _, err := lockmw.Do(context.Background(), lockers[i%2], key, f, m.make)
				if took := time.Since(began); errors.Is(err, lockmw.ErrOtherRequest) != (i > 0) || (answer == "") != (i > 0) || took < m.takes {
					t.Errorf("%d: Do = %q, %v after %v", i, answer, err, took)
				}
			})
		}
		all.Wait()
		if n := m.runs.Load(); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
	})
}

// Work may take many times the TTL: its lock is renewed, and nobody else begins it.
func TestAnAnswerThatTakesLongerThanTheTTL(t *testing.T) {
	for _, f := range []lockmw.Flight{retained(time.Minute), uncertain} {
		inBubble(t, func(t *testing.T, s *redistest.Mini) {
			key := redistest.Prefix(t)
			f.Policy.Wait = time.Minute
			m := &maker{takes: 7 * f.Policy.TTL}
			var all sync.WaitGroup
			for range 4 {
				l := testenv.Open(t, s.Client(t))
				all.Go(func() {
					if answer, _, err := lockmw.Do(context.Background(), l, key, f, m.make); answer != "answer 1" || err != nil {
						t.Errorf("Do = %q, %v", answer, err)
					}
				})
			}
			all.Wait()
			if n := m.runs.Load(); n != 1 {
				t.Errorf("%d runs, want 1", n)
			}
		})
	}
}

// The function goes on while anybody waits for its answer, and not longer.
func TestWhoLeavesDoesNotEndTheWorkOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		type caller struct {
			leave context.CancelFunc
			done  chan error
		}
		m := &maker{takes: time.Second}
		call := func() (c caller) {
			ctx, cancel := context.WithCancel(context.Background())
			c = caller{cancel, make(chan error, 1)}
			go func() {
				_, _, err := lockmw.Do(ctx, l, key, flight, m.make)
				c.done <- err
			}()
			time.Sleep(100 * time.Millisecond)
			return c
		}
		first, second, third := call(), call(), call()
		first.leave()
		second.leave()
		if err := await.Receive(t, "the second's Do", second.done); !errors.Is(err, lockmw.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
			t.Errorf("the second's Do = %v, want that it has left", err)
		}
		if err := await.Receive(t, "the third's Do", third.done); err != nil {
			t.Error(err)
		}
		if err := await.Receive(t, "the first's Do", first.done); err != nil {
			t.Error(err)
		}
		first, second = call(), call()
		first.leave()
		second.leave()
		began := time.Now()
		if err := await.Receive(t, "the first's Do", first.done); !errors.Is(err, context.Canceled) || time.Since(began) > 100*time.Millisecond {
			t.Errorf("Do = %v after %v, want that its work was told to stop", err, time.Since(began))
		}
		if n := m.runs.Load(); n != 2 {
			t.Errorf("%d runs, want 2", n)
		}
	})
}

// Whoever leads and gives up has the next one lead.
func TestTheNextOneLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		lease := mustAcquire(t, other, key, lockmw.Policy{})
		m := new(maker)
		short, patient := flight, flight
		short.Policy.Wait = 300 * time.Millisecond
		gaveUp, answered := make(chan error, 2), make(chan error, 1)
		do := func(f lockmw.Flight, to chan error) {
			go func() {
				_, _, err := lockmw.Do(context.Background(), l, key, f, m.make)
				to <- err
			}()
			time.Sleep(50 * time.Millisecond)
		}
		do(short, gaveUp)
		do(short, gaveUp)
		do(patient, answered)
		for range 2 {
			var refusal *lockmw.AcquireError
			if err := await.Receive(t, "a refusal", gaveUp); !errors.Is(err, lockmw.ErrNotAcquired) || !errors.As(err, &refusal) || !refusal.Queued || refusal.Waited > 320*time.Millisecond {
				t.Errorf("Do = %v, want a refusal after 300 ms", err)
			}
		}
		mustRelease(t, lease)
		if err := await.Receive(t, "the patient one", answered); err != nil {
			t.Error(err)
		}
	})
}

// Work that panics leaves nothing, and the next one does it.
func TestAPanicIsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		first := make(chan any, 1)
		go func() {
			defer func() { first <- recover() }()
			_, _, _ = lockmw.Do(context.Background(), l, key, flight, func(context.Context) (int, error) {
				time.Sleep(100 * time.Millisecond)
				panic("boom")
			})
		}()
		time.Sleep(50 * time.Millisecond)
		answer, shared, err := lockmw.Do(context.Background(), l, key, flight, func(context.Context) (int, error) { return 1, nil })
		if answer != 1 || shared || err != nil {
			t.Errorf("Do = %d, %v, %v", answer, shared, err)
		}
		if p := await.Receive(t, "the panic", first); p != "boom" {
			t.Errorf("panic %v", p)
		}
	})
}

// An answer that was made without the lock is its maker's alone.
func TestALostLockKeepsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		c := s.Client(t)
		answer, shared, err := lockmw.Do(context.Background(), l, key, retained(time.Minute), func(context.Context) (int, error) {
			c.Del(context.Background(), "lock:{"+key+"}")
			return 1, nil
		})
		if answer != 1 || shared || !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Do = %d, %v, %v, want the own answer and ErrLost", answer, shared, err)
		}
		answer, _, err = lockmw.Do(context.Background(), l, key, retained(time.Minute), func(context.Context) (int, error) { return 2, nil })
		if answer != 2 || err != nil {
			t.Errorf("Do = %d, %v, want another answer", answer, err)
		}
	})
}

// A large answer is not kept, but those have it who wait in the same process.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		f := retained(time.Minute)
		f.MaxAnswer = 10
		var runs atomic.Int64
		large := func(context.Context) (string, error) {
			runs.Add(1)
			time.Sleep(200 * time.Millisecond)
			return strings.Repeat("x", 20), nil
		}
		var all sync.WaitGroup
		for i, by := range []*lockmw.Locker{l, l, other, l} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				answer, shared, err := lockmw.Do(context.Background(), by, key, f, large)
				if len(answer) != 20 || errors.Is(err, lockmw.ErrAnswerTooLarge) == shared {
					t.Errorf("%d: Do = %q, %v, %v", i, answer, shared, err)
				}
			})
		}
		all.Wait()
		if n := runs.Load(); n != 2 {
			t.Errorf("%d runs, want one for each Locker", n)
		}
	})
}

// A Redis that fails at the end does not have the work done twice: the caller has its answer after a second, and the lock is kept until
// the answer is in.
func TestAnAnswerWhileRedisIsAway(t *testing.T) {
	for name, away := range map[string]func(*faultproxy.Proxy){
		"silent":       func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.Both) },
		"cut":          func(p *faultproxy.Proxy) { p.Refuse(true); p.Cut() },
		"no replies":   func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.ToClient) },
		"a lost reply": func(p *faultproxy.Proxy) { p.DropReplies(1, faultproxy.Match("EVALSHA")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				client, proxy := proxied(t, s)
				var seen events
				l, other := testenv.Open(t, client, seen.option()), testenv.Open(t, s.Client(t))
				f := retained(time.Minute)
				f.Policy.TTL = 6 * time.Second
				if _, _, err := lockmw.Do(context.Background(), l, key+"warm", f, func(context.Context) (int, error) { return 0, nil }); err != nil {
					t.Fatal(err) // Redis knows the scripts by now
				}
				began := time.Now()
				answer, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) {
					away(proxy)
					return 1, nil
				})
				if took := time.Since(began); answer != 1 || err != nil || took > 1500*time.Millisecond {
					t.Errorf("Do = %d, %v after %v", answer, err, took)
				}
				time.AfterFunc(2*time.Second, func() { proxy.Refuse(false); proxy.Heal() })
				answer, shared, err := lockmw.Do(context.Background(), other, key, f, func(context.Context) (int, error) { return 2, nil })
				if answer != 1 || !shared || err != nil {
					t.Errorf("Do = %d, %v, %v, want the first one's answer", answer, shared, err)
				}
				if n := len(seen.of(lockmw.EventLost)); n != 0 {
					t.Errorf("%d EventLost", n)
				}
			})
		})
	}
}

// An answer that Redis did not get, while the lock ended and another call made one: the caller is told, and has its own.
func TestAnAnswerInWhosePlaceThereIsAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		f := retained(time.Hour)
		f.Policy.TTL = 300 * time.Millisecond
		_, _, _ = lockmw.Do(context.Background(), l, key+"warm", f, func(context.Context) (int, error) { return 0, nil })
		var all sync.WaitGroup
		answer, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) {
			proxy.BlackHole(faultproxy.Both)
			time.AfterFunc(700*time.Millisecond, proxy.Heal)
			all.Go(func() {
				if answer, shared, err := lockmw.Do(context.Background(), other, key, f, func(context.Context) (int, error) { return 2, nil }); answer != 2 || shared || err != nil {
					t.Errorf("the other: Do = %d, %v, %v", answer, shared, err)
				}
			})
			return 1, nil
		})
		if answer != 1 || !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Do = %d, %v, want 1 and ErrLost", answer, err)
		}
		all.Wait()
		if answer, shared, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) { return 3, nil }); answer != 2 || !shared || err != nil {
			t.Errorf("later: Do = %d, %v, %v", answer, shared, err)
		}
	})
}

// Plain calls and those of Do wait in one queue.
func TestAPlainAcquireGetsTheLock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		m := &maker{takes: 200 * time.Millisecond}
		var mu sync.Mutex
		var order []string
		did := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		var all sync.WaitGroup
		for i, by := range []*lockmw.Locker{l, other, l, other} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				if i%2 == 1 {
					lease := mustAcquire(t, by, key, flight.Policy)
					did(fmt.Sprint("plain ", i))
					mustRelease(t, lease)
					return
				}
				answer, _, err := lockmw.Do(context.Background(), by, key, flight, m.make)
				if err != nil {
					t.Error(err)
				}
				did(answer)
			})
		}
		all.Wait()
		if got := strings.Join(order, ", "); strings.Index(got, "plain 1") > strings.Index(got, "plain 3") || m.runs.Load() != 1 {
			t.Errorf("%s; %d runs", got, m.runs.Load())
		}
	})
}

// What cannot be decoded is an error.
func TestAnAnswerInAnotherForm(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		text := func(context.Context) (string, error) { return "text", nil }
		if _, _, err := lockmw.Do(context.Background(), l, key, retained(time.Minute), text); err != nil {
			t.Fatal(err)
		}
		newer, coded := retained(time.Minute), retained(time.Minute)
		newer.Version, coded.Codec = "2", plainCodec{}
		for _, f := range []lockmw.Flight{newer, coded} {
			if answer, _, err := lockmw.Do(context.Background(), l, key, f, text); err == nil || answer != "" {
				t.Errorf("Do = %q, %v, want an error", answer, err)
			}
		}
		if n, _, err := lockmw.Do(context.Background(), l, key, retained(time.Minute), func(context.Context) (int, error) { return 1, nil }); err == nil || n != 0 {
			t.Errorf("Do = %d, %v, want an error", n, err)
		}
		if answer, shared, err := lockmw.Do(context.Background(), l, key+"coded", coded, text); answer != "text" || shared || err != nil {
			t.Errorf("Do = %q, %v, %v", answer, shared, err)
		}
		if answer, shared, err := lockmw.Do(context.Background(), l, key+"coded", coded, text); answer != "text" || !shared || err != nil {
			t.Errorf("Do = %q, %v, %v, want the answer that is kept", answer, shared, err)
		}
	})
}

// plainCodec writes text as it is.
type plainCodec struct{}

func (plainCodec) Name() string { return "plain" }

func (plainCodec) Encode(key string, answer any) ([]byte, error) {
	return []byte(key + "\n" + answer.(string)), nil
}

func (plainCodec) Decode(key string, data []byte, answer any) error {
	text, ok := strings.CutPrefix(string(data), key+"\n")
	if !ok {
		return errors.New("another key's")
	}
	*answer.(*string) = text
	return nil
}

// A call under its own answer's lock would wait for itself.
func TestDoWithinItsOwnWork(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		m := new(maker)
		_, _, err := lockmw.Do(context.Background(), l, key, flight, func(ctx context.Context) (string, error) {
			answer, _, err := lockmw.Do(ctx, l, key, flight, m.make)
			return answer, err
		})
		if !errors.Is(err, lockmw.ErrReentrant) || m.runs.Load() != 0 {
			t.Errorf("Do = %v, want ErrReentrant", err)
		}
	})
}

// Close waits for work, as it does for leases, and whoever waits for that has its answer.
func TestCloseWaitsForAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		m := &maker{takes: time.Second}
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, _, err := lockmw.Do(context.Background(), l, key, retained(time.Minute), m.make)
				done <- err
			}()
			time.Sleep(100 * time.Millisecond)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := await.Receive(t, "Do", done); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := lockmw.Do(context.Background(), l, key, flight, m.make); !errors.Is(err, lockmw.ErrClosed) {
			t.Errorf("Do = %v, want ErrClosed", err)
		}
	})
}

// Policies under which there is no one answer are refused, and say why.
func TestFlightsThatCannotBe(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	for name, change := range map[string]func(*lockmw.Flight){
		"Mode":         func(f *lockmw.Flight) { f.Policy.Mode = lockmw.Shared },
		"Permits":      func(f *lockmw.Flight) { f.Policy.Permits = 2 },
		"MinHold":      func(f *lockmw.Flight) { f.Policy.MinHold = time.Second },
		"Reentrant":    func(f *lockmw.Flight) { f.Policy.Reentrant = true },
		"FailOpen":     func(f *lockmw.Flight) { f.Policy.FailOpen = true },
		"AsyncRelease": func(f *lockmw.Flight) { f.Policy.AsyncRelease = true },
		"Retain":       func(f *lockmw.Flight) { f.Retain = -1 },
		"MaxAnswer":    func(f *lockmw.Flight) { f.MaxAnswer = -1 },
		"Version":      func(f *lockmw.Flight) { f.Version = "1 2" },
		"TTL":          func(f *lockmw.Flight) { f.Policy.TTL = -1 },
	} {
		f := flight
		change(&f)
		_, _, err := lockmw.Do(context.Background(), l, "k", f, func(context.Context) (int, error) {
			t.Errorf("%s: it ran", name)
			return 0, nil
		})
		if !errors.Is(err, lockmw.ErrInvalidPolicy) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want ErrInvalidPolicy that names it", name, err)
		}
	}
}

// A quorum keeps no answers. Do and Resolve say so, and ask no server.
func TestAQuorumKeepsNoAnswers(t *testing.T) {
	var clients []redis.UniversalClient
	var servers []*redistest.Mini
	for range 3 {
		s := redistest.Embedded(t)
		servers, clients = append(servers, s), append(clients, s.Client(t))
	}
	l, err := lockmw.NewQuorum(clients, lockmw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(over())
	for _, f := range []lockmw.Flight{flight, uncertain} {
		answer, shared, err := lockmw.Do(context.Background(), l, "k", f, func(context.Context) (string, error) {
			t.Error("it ran")
			return "answer", nil
		})
		if answer != "" || shared || !errors.Is(err, lockmw.ErrInvalidPolicy) || !strings.Contains(err.Error(), "a quorum keeps no answers") {
			t.Errorf("Do = %q, %v, %v, want ErrInvalidPolicy that says why", answer, shared, err)
		}
	}
	err = l.Resolve(context.Background(), "k", "1", lockmw.Again)
	if !errors.Is(err, lockmw.ErrInvalidPolicy) || !strings.Contains(err.Error(), "a quorum keeps no answers") {
		t.Errorf("Resolve = %v, want ErrInvalidPolicy that says why", err)
	}
	for i, s := range servers {
		if n := s.TotalConnectionCount(); n > 0 {
			t.Errorf("%d connections to server %d", n, i)
		}
	}
}

// Once Close has begun nobody begins to wait for work that is under way.
func TestNobodyJoinsTheCallsOfALockerThatCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		m := &maker{takes: time.Second}
		done, closed := make(chan error, 1), make(chan error, 1)
		go func() {
			_, _, err := lockmw.Do(context.Background(), l, key, flight, m.make)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		go func() { closed <- l.Close(context.Background()) }()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		if _, _, err := lockmw.Do(context.Background(), l, key, flight, m.make); !errors.Is(err, lockmw.ErrClosed) || time.Since(began) > 0 {
			t.Errorf("Do = %v after %v, want ErrClosed at once", err, time.Since(began))
		}
		for what, c := range map[string]chan error{"Do": done, "Close": closed} {
			if err := await.Receive(t, what, c); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// A panickyContext panics when it is waited for.
type panickyContext struct{ context.Context }

func (panickyContext) Done() <-chan struct{} { panic("no context any more") }

// A call whose context panics while it waits for others leaves them as they are.
func TestAWaitersContextThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		broken := errors.New("broken")
		first := make(chan error, 1)
		go func() {
			_, _, err := lockmw.Do(context.Background(), l, key, flight, func(context.Context) (string, error) {
				time.Sleep(time.Second)
				return "", broken
			})
			first <- err
		}()
		time.Sleep(100 * time.Millisecond)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_, _, _ = lockmw.Do(panickyContext{context.Background()}, l, key, flight, new(maker).make)
		}()
		if answer, _, err := lockmw.Do(context.Background(), l, key, flight, new(maker).make); answer != "answer 1" || err != nil {
			t.Errorf("Do = %q, %v, want that it does the work", answer, err)
		}
		if err := await.Receive(t, "the first one", first); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}
