package lockmw_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A logBuffer has what a Locker logs, without times.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) option() lockmw.Option {
	return lockmw.WithLogger(slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
}

// lines returns what was logged so far.
func (b *logBuffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSuffix(b.text.String(), "\n"), "\n")
}

// A scene is what a mistake is made in: the Redis of two processes, and time that
// passes when all wait.
type scene struct {
	*testing.T
	locks, elsewhere *lockmw.Locker
	client           *redis.Client
	log              *logBuffer
	seen             *events
}

func inScene(t *testing.T, test func(s scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.InMemory(t)
		s := scene{T: t, client: m.Client(t), log: new(logBuffer), seen: new(events)}
		s.locks = testenv.Open(t, m.Client(t), s.log.option(), s.seen.option())
		s.elsewhere = testenv.Open(t, m.Client(t))
		test(s)
	})
}

// holdsFor takes the lock with l and lets time pass.
func (s scene) holdsFor(l *lockmw.Locker, p lockmw.Policy, d time.Duration) *lockmw.Lease {
	s.Helper()
	lease := mustAcquire(s, l, "42", p)
	time.Sleep(d)
	return lease
}

var order = lockmw.Policy{Prefix: "order:"}

// attempts are without number where pauses are drawn by chance.
var attempts = regexp.MustCompile(`\d+ attempts`)

// What the developer wrote, and the whole text of the error that this comes to.
var mistakes = []struct {
	name  string
	wrote func(s scene) error
	want  string
}{
	{"another context under the lock, and one attempt", func(s scene) error {
		lease := s.holdsFor(s.locks, order, 1200*time.Millisecond)
		defer mustRelease(s, lease)
		_, _, err := s.locks.Acquire(context.Background(), "42", order)
		return err
	}, `lockmw: acquire "order:42": lock not acquired: held by another call of this process for 1.2s: if that call waits for this one, its context was not handed on (1 attempt in 0s)`},
	{"another context under the lock, and a wait", func(s scene) error {
		lease := s.holdsFor(s.locks, order, 1200*time.Millisecond)
		defer mustRelease(s, lease)
		p := order
		p.Wait = 2 * time.Second
		_, _, err := s.locks.Acquire(context.Background(), "42", p)
		return err
	}, `lockmw: acquire "order:42": lock not acquired: held by another call of this process for 3.2s, and until the wait was over: if that call waits for this one, its context was not handed on (N attempts in 2s)`},
	{"another context under the lock, and a deadline", func(s scene) error {
		lease := s.holdsFor(s.locks, order, 1200*time.Millisecond)
		defer mustRelease(s, lease)
		p := order
		p.Wait = time.Minute
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _, err := s.locks.Acquire(ctx, "42", p)
		return err
	}, `lockmw: acquire "order:42": lock not acquired: context deadline exceeded; held by another call of this process for 2.2s (N attempts in 1s)`},
	{"a request's context under its own lock, in the place of the lease's", func(s scene) error {
		return s.clicks(order, true)
	}, `lockmw: acquire "order:42": lock not acquired: held by another call of this process for 200ms: if that call waits for this one, its context was not handed on (1 attempt in 0s)`},
	{"nothing wrong: a double click", func(s scene) error {
		return s.clicks(order, false)
	}, `lockmw: acquire "order:42": lock not acquired: held by another call of this process for 200ms (1 attempt in 0s)`},
	{"nothing wrong: a second click that waits for a slow one", func(s scene) error {
		return s.clicks(lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}, false)
	}, `lockmw: acquire "order:42": lock not acquired: held by another call of this process for 2.2s, and until the wait was over (N attempts in 2s)`},
	{"another context under a lock that is shared", func(s scene) error {
		p := order
		p.Mode = lockmw.Shared
		lease := s.holdsFor(s.locks, p, time.Second)
		defer mustRelease(s, lease)
		_, _, err := s.locks.Acquire(context.Background(), "42", order)
		return err
	}, `lockmw: acquire "order:42": lock not acquired: held by another call of this process for 1s: if that call waits for this one, its context was not handed on (1 attempt in 0s)`},
	{"the same context under the lock", func(s scene) error {
		lease := s.holdsFor(s.locks, order, time.Second)
		defer mustRelease(s, lease)
		_, _, err := s.locks.Acquire(lease.Context(), "42", order)
		return err
	}, `lockmw: acquire "order:42": lock is already held by this context`},
	{"the context of a lease that was released", func(s scene) error {
		ctx, lease, err := s.elsewhere.Acquire(context.Background(), "41", order)
		if err != nil {
			s.Fatal(err)
		}
		mustRelease(s, lease)
		_, _, err = s.locks.Acquire(ctx, "42", order)
		return err
	}, `lockmw: acquire "order:42": lock not acquired: context canceled: lockmw: lock was released: this is the context of work that is over; acquire with the one from outside the lock`},
	{"the context of a lease that is released during the wait", func(s scene) error {
		defer mustRelease(s, s.holdsFor(s.elsewhere, order, 0))
		ctx, lease, err := s.elsewhere.Acquire(context.Background(), "41", order)
		if err != nil {
			s.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { mustRelease(s, lease) })
		_, _, err = s.locks.Acquire(ctx, "42", lockmw.Policy{Prefix: "order:", Wait: time.Minute})
		return err
	}, `lockmw: acquire "order:42": lock not acquired: context canceled: lockmw: lock was released: this is the context of work that is over; acquire with the one from outside the lock (N attempts in 1s)`},
	{"nothing wrong: another process holds the lock", func(s scene) error {
		lease := s.holdsFor(s.elsewhere, order, time.Second)
		defer mustRelease(s, lease)
		_, _, err := s.locks.Acquire(context.Background(), "42", order)
		return err
	}, `lockmw: acquire "order:42": lock not acquired: held by others (1 attempt in 0s)`},
	{"nothing wrong: a lock with a name", func(s scene) error {
		lease := s.holdsFor(s.elsewhere, order, time.Second)
		defer mustRelease(s, lease)
		p := order
		p.Name = "pay"
		_, _, err := s.locks.Acquire(context.Background(), "42", p)
		return err
	}, `lockmw: acquire "order:42" for "pay": lock not acquired: held by others (1 attempt in 0s)`},
	{"the key is kept by MinHold, and its holder is gone", func(s scene) error {
		p := order
		p.MinHold = time.Minute
		mustRelease(s, s.holdsFor(s.locks, p, time.Second))
		_, _, err := s.locks.Acquire(context.Background(), "42", p)
		return err
	}, `lockmw: acquire "order:42": lock not acquired: its work was done a moment ago, and it is cooling down for another 59s (1 attempt in 0s)`},
	{"RetryInterval: 200", func(s scene) error {
		_, _, err := s.locks.Acquire(context.Background(), "42", lockmw.Policy{Prefix: "order:", RetryInterval: 200})
		return err
	}, `lockmw: acquire "order:42": invalid policy: RetryInterval: 200ns: is the unit missing?`},
	{"MaxHold: 3000", func(s scene) error {
		return s.locks.WithLock(context.Background(), "42", lockmw.Policy{Prefix: "order:", MaxHold: 3000}, func(context.Context) error { return nil })
	}, `lockmw: acquire "order:42": invalid policy: MaxHold: 3µs: is the unit missing?`},
	{"a key function without a key", func(s scene) error {
		pay := lockmw.Wrap(s.locks, func(int) (string, error) { return "", errors.New("no order") }, order,
			func(context.Context, int) (int, error) { return 0, nil })
		_, err := pay(context.Background(), 42)
		return err
	}, `lockmw: acquire "order:": invalid key: no order`},
	{"AcquireAll of nothing", func(s scene) error {
		_, _, err := s.locks.AcquireAll(context.Background(), nil, order)
		return err
	}, `lockmw: acquire "order:": invalid policy: AcquireAll without keys`},
	{"an empty key", func(s scene) error {
		_, _, err := s.locks.Acquire(context.Background(), "", order)
		return err
	}, `lockmw: acquire "order:": invalid key: empty: all work would wait for the same lock`},
	{"other data under the lock's key", func(s scene) error {
		s.client.HSet(context.Background(), "lock:{order:42}", "their", "data")
		_, _, err := s.locks.Acquire(context.Background(), "42", order)
		return err
	}, `lockmw: acquire "order:42": lock store unavailable: a Redis key of the lock "lock:{order:42}" holds data of another program: lock under another namespace or prefix: WRONGTYPE`},
}

func TestMistakesAreToldInFull(t *testing.T) {
	for _, tc := range mistakes {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s scene) {
				err := tc.wrote(s)
				got := attempts.ReplaceAllString(fmt.Sprint(err), "N attempts")
				if _, rest, other := strings.Cut(got, "or prefix: "); other && strings.Contains(rest, "WRONGTYPE") {
					got = strings.TrimSuffix(got, rest) + "WRONGTYPE" // how a server says it is its own affair
				}
				if got != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
				synctest.Wait()
				refused := s.seen.of(lockmw.EventRefused)
				if told, _ := lockmw.RefusalOf(err); len(refused) != 1 || !errors.Is(refused[0].Err, err) || refused[0].Reason != told.Code {
					t.Errorf("observers are told of %d refusals: %v", len(refused), refused)
				}
				if text := strings.Join(s.log.lines(), "\n"); strings.Count(text, "lock was refused") != 1 {
					t.Errorf("the log has %q, want one refusal", text)
				}
			})
		})
	}
}

// ofShop2 is the name of a Locker, of which a part is drawn.
var ofShop2 = regexp.MustCompile(`shop-2-\w+`)

// A log line for each kind of refusal, whole.
func TestRefusalsAreLogged(t *testing.T) {
	const pay = `name=pay key=`
	named := lockmw.Policy{Name: "pay", Prefix: "order:"}
	for _, tc := range []struct {
		name   string
		refuse func(s scene)
		want   string
	}{
		{"busy", func(s scene) {
			lease := s.holdsFor(s.elsewhere, order, 0)
			_, _, _ = s.locks.Acquire(context.Background(), "42", named)
			mustRelease(s, lease)
		}, `level=INFO msg="lockmw: lock was refused" ` + pay + `order:42 reason=LOCK_BUSY error="lockmw: acquire \"order:42\" for \"pay\": lock not acquired: held by others (1 attempt in 0s)" holder=ELSEWHERE`},
		{"busy, and the holder has a note", func(s scene) {
			says := lockmw.WithNote(func(context.Context) string { return "request 8f2" })
			lease := s.holdsFor(testenv.Open(s, s.client, lockmw.WithInstance("shop-2"), says), order, 2*time.Second)
			_, _, _ = s.locks.Acquire(context.Background(), "42", named)
			mustRelease(s, lease)
		}, `level=INFO msg="lockmw: lock was refused" ` + pay + `order:42 reason=LOCK_BUSY error="lockmw: acquire \"order:42\" for \"pay\": lock not acquired: held by others (1 attempt in 0s)" holder=SHOP-2 holder_note="request 8f2" held_for=2s`},
		{"the caller leaves", func(s scene) {
			_, _, _ = s.locks.Acquire(over(), "42", named)
		}, `level=INFO msg="lockmw: lock was refused" ` + pay + `order:42 reason="the caller's context was cancelled" error="lockmw: acquire \"order:42\" for \"pay\": lock not acquired: context canceled"`},
		{"the context of a lease that was released", func(s scene) {
			ctx, lease, _ := s.elsewhere.Acquire(context.Background(), "41", order)
			mustRelease(s, lease)
			_, _, _ = s.locks.Acquire(ctx, "42", named)
		}, `level=ERROR msg="lockmw: lock was refused" ` + pay + `order:42 reason=LOCK_MISUSE error="lockmw: acquire \"order:42\" for \"pay\": lock not acquired: context canceled: lockmw: lock was released: this is the context of work that is over; acquire with the one from outside the lock"`},
		{"a missing key at a middleware", func(s scene) {
			_ = s.locks.Refuse(context.Background(), named, fmt.Errorf("%w: no route parameter \"id\"", lockmw.ErrInvalidKey))
		}, `level=WARN msg="lockmw: lock was refused" ` + pay + `order: reason=LOCK_KEY_INVALID error="lockmw: acquire \"order:\" for \"pay\": invalid key: no route parameter \"id\""`},
		{"a middleware that is used wrongly", func(s scene) {
			_ = s.locks.Refuse(context.Background(), named, errors.New("the route has no parameter \"id\""))
		}, `level=ERROR msg="lockmw: lock was refused" ` + pay + `order: reason=LOCK_MISUSE error="lockmw: acquire \"order:\" for \"pay\": the route has no parameter \"id\""`},
		{"closed", func(s scene) {
			_ = s.locks.Refuse(context.Background(), named, lockmw.ErrClosed)
		}, `level=INFO msg="lockmw: lock was refused" ` + pay + `order: reason=LOCK_CLOSED error="lockmw: acquire \"order:\" for \"pay\": locker is closed"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s scene) {
				tc.refuse(s)
				synctest.Wait()
				got := strings.Join(s.log.lines(), "\n")
				got = strings.ReplaceAll(got, s.elsewhere.Instance(), "ELSEWHERE")
				if got = ofShop2.ReplaceAllString(got, "SHOP-2"); got != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
			})
		})
	}
}

// A mistake of the program does not pass, and each request would tell of it again.
func TestMistakesOfTheProgramAreLoggedOnce(t *testing.T) {
	inScene(t, func(s scene) {
		mistake := func(name, text string) {
			_ = s.locks.Refuse(context.Background(), lockmw.Policy{Name: name}, errors.New(text))
		}
		for range 3 { // at 0, 2 and 4 s
			mistake("pay", "route a has no id")
			mistake("pay", "route b has no id")
			mistake("cancel", "route a has no id")
			mistake("pay", "route a has no id")
			_, _, _ = s.locks.Acquire(context.Background(), "42", lockmw.Policy{Name: "pay", TTL: -1}) // is told each time
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		var got []string
		for _, line := range s.log.lines() {
			_, rest, _ := strings.Cut(line, "name=")
			name, rest, _ := strings.Cut(rest, " ")
			_, text, _ := strings.Cut(rest, `" for \"`+name+`\": `)
			got = append(got, name+": "+strings.TrimSuffix(text, `"`))
		}
		const policy = "pay: invalid policy: TTL: -1ns is negative"
		want := []string{"pay: route a has no id", "pay: route b has no id", "cancel: route a has no id", policy, policy, policy}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("logged:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := len(s.seen.of(lockmw.EventRefused)); n != 15 {
			t.Errorf("observers were told of %d refusals, want 15", n)
		}
	})
}

func TestRefusalsAreLoggedOnceASecondForEachReasonAndName(t *testing.T) {
	inScene(t, func(s scene) {
		missing := fmt.Errorf("%w: missing", lockmw.ErrInvalidKey)
		refuse := func(name string, err error, times int) {
			for range times {
				_ = s.locks.Refuse(context.Background(), lockmw.Policy{Name: name}, err)
			}
		}
		for range 3 { // at 0, 600 and 1200 ms
			refuse("pay", missing, 100)
			refuse("pay", lockmw.ErrQueueFull, 1)
			refuse("cancel", missing, 1)
			time.Sleep(600 * time.Millisecond)
		}
		synctest.Wait()
		var got []string
		for _, line := range s.log.lines() {
			_, rest, _ := strings.Cut(line, "name=")
			name, rest, _ := strings.Cut(rest, " ")
			_, rest, _ = strings.Cut(rest, "reason=")
			reason, _, _ := strings.Cut(rest, " ")
			_, quiet, _ := strings.Cut(line, "not_logged=")
			got = append(got, strings.TrimSpace(name+" "+reason+" "+quiet))
		}
		want := []string{
			"pay LOCK_KEY_INVALID", "pay LOCK_QUEUE_FULL", "cancel LOCK_KEY_INVALID",
			"pay LOCK_KEY_INVALID 199", "pay LOCK_QUEUE_FULL 1", "cancel LOCK_KEY_INVALID 1",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("logged:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := len(s.seen.of(lockmw.EventRefused)); n != 306 {
			t.Errorf("observers were told of %d refusals, want 306", n)
		}
	})
}

// Names are to be few. A program that makes one for each tenant still has a log that
// can be read.
func TestRefusalsOfManyNamesDoNotFloodTheLog(t *testing.T) {
	inScene(t, func(s scene) {
		const names, most = 2000, 100 // of these 100 the second ones are counted by themselves
		for range 2 {
			for i := range names {
				p := lockmw.Policy{Name: fmt.Sprintf("tenant%d", i)}
				_ = s.locks.Refuse(context.Background(), p, lockmw.ErrQueueFull)
				_ = s.locks.Refuse(context.Background(), p, fmt.Errorf("no shard for tenant %d", i))
			}
		}
		synctest.Wait()
		if n := len(s.log.take()); n == 0 || n > most {
			t.Errorf("%d lines in one moment, want up to %d", n, most)
		}
		time.Sleep(2 * time.Second)
		_ = s.locks.Refuse(context.Background(), lockmw.Policy{Name: "pay"}, lockmw.ErrQueueFull)
		synctest.Wait()
		if lines, want := s.log.take(), fmt.Sprintf("not_logged=%d", 4*names-2*most); len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("logged %q, want one line that says %s", lines, want)
		}
	})
}

// The name is in every event and every line, and the prefix is what it was.
func TestEventsAndLinesHaveTheName(t *testing.T) {
	inScene(t, func(s scene) {
		for _, p := range []lockmw.Policy{{Name: "pay", Prefix: "order:"}, {Prefix: "order:"}} {
			want := p.Name
			if want == "" {
				want = p.Prefix
			}
			p.TTL = time.Second
			other := mustAcquire(s, s.elsewhere, "42", p)
			_, _, _ = s.locks.Acquire(context.Background(), "42", p)
			waits := p
			waits.Wait = time.Minute
			done := make(chan struct{})
			go func() {
				defer close(done)
				mustRelease(s, mustAcquire(s, s.locks, "42", waits))
			}()
			synctest.Wait()
			mustRelease(s, other)
			<-done
			lost := mustAcquire(s, s.locks, "42", p)
			s.client.Del(context.Background(), "lock:{order:42}")
			<-lost.Context().Done()
			synctest.Wait()
			kinds := make(map[lockmw.EventKind]bool)
			for _, e := range s.seen.take() {
				kinds[e.Kind] = true
				if e.Name != want || e.Prefix != "order:" || e.Key != "order:42" {
					t.Errorf("%v: name %q, prefix %q, key %q; want name %q", e.Kind, e.Name, e.Prefix, e.Key, want)
				}
			}
			for _, kind := range []lockmw.EventKind{
				lockmw.EventRefused, lockmw.EventContended, lockmw.EventHandedOver, lockmw.EventAcquired, lockmw.EventReleased, lockmw.EventLost,
			} {
				if !kinds[kind] {
					t.Errorf("no event %v", kind)
				}
			}
			for _, line := range s.log.take() {
				if !strings.Contains(line, "name="+want+" key=order:42") {
					t.Errorf("a line without name %q: %s", want, line)
				}
			}
		}
	})
}

// take returns the events so far, and forgets them.
func (e *events) take() []lockmw.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// take returns what was logged so far, and forgets it.
func (b *logBuffer) take() []string {
	lines := b.lines()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
	return lines
}
