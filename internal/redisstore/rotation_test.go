package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A provider is a streaming credentials provider that a test rotates.
type provider struct {
	mu        sync.Mutex
	fails     error
	now       auth.Credentials
	listeners []auth.CredentialsListener
	asked     int
}

// Subscribe implements auth.StreamingCredentialsProvider.
func (p *provider) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.fails != nil {
		return nil, nil, p.fails
	}
	if !slices.Contains(p.listeners, l) {
		p.listeners = append(p.listeners, l)
	}
	return p.now, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.listeners = slices.DeleteFunc(p.listeners, func(other auth.CredentialsListener) bool { return other == l })
		return nil
	}, nil
}

// rotate tells of the credentials of a user.
func (p *provider) rotate(user string) {
	p.mu.Lock()
	p.now = auth.NewBasicCredentials(user, "secret of "+user)
	now, listeners := p.now, slices.Clone(p.listeners)
	p.mu.Unlock()
	for _, l := range listeners {
		l.OnNext(now)
	}
}

func (p *provider) heardBy() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.listeners)
}

func (p *provider) askings() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// A staff is a server with users, and a client that a provider tells which of them it is.
type staff struct {
	*testing.T
	raw      *redis.Client
	provider *provider
	client   *redis.Client
}

// newStaff returns one whose client is the first of the users.
func newStaff(t *testing.T, users ...string) *staff {
	t.Helper()
	server := redistest.Real(t)
	s := &staff{T: t, raw: server.Client(t), provider: new(provider)}
	for _, user := range users {
		set := []any{"ACL", "SETUSER", user, "reset", "on", ">secret of " + user}
		for rule := range strings.FieldsSeq(minimalACL) {
			set = append(set, rule)
		}
		do(t, s.raw, set...)
	}
	s.provider.rotate(users[0])
	s.client = redis.NewClient(&redis.Options{Addr: server.Addr(), StreamingCredentialsProvider: s.provider})
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// ids returns the server's names of a user's connections.
func (s *staff) ids(user string) (ids []string) {
	s.Helper()
	list, err := s.raw.ClientList(s.Context()).Result()
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(list) {
		if strings.Contains(line, " user="+user+" ") {
			id, _, _ := strings.Cut(line, " ")
			ids = append(ids, id)
		}
	}
	return ids
}

// connections returns how many a user has.
func (s *staff) connections(user string) int {
	s.Helper()
	return len(s.ids(user))
}

// work has callers take and give back locks of their own until stop is called, which
// wants none of that to have failed.
func (p *probe) work(callers int) (turns *atomic.Int64, stop func()) {
	turns = new(atomic.Int64)
	var all sync.WaitGroup
	var slowest atomic.Int64
	end := make(chan struct{})
	for i := range callers {
		all.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				r := p.ref(time.Minute)
				r.Key = fmt.Sprint("key ", i)
				start := time.Now()
				var a store.Answer
				_, err := insist(func() (err error) { // a busy machine, and no refusal
					a, err = p.Acquire(p.Context(), store.Request{Ref: r})
					return err
				})
				if err != nil || !a.Granted {
					p.Errorf("Acquire = %+v, %v, want a grant", a, err)
					return
				}
				_, err = insist(func() error {
					_, _, err := p.Release(p.Context(), store.Give{Ref: r})
					return err
				})
				if err != nil {
					p.Errorf("Release = %v, want nil", err)
					return
				}
				for was, took := slowest.Load(), int64(time.Since(start)); took > was && !slowest.CompareAndSwap(was, took); was = slowest.Load() {
				}
				turns.Add(1)
			}
		})
	}
	return turns, sync.OnceFunc(func() {
		close(end)
		all.Wait()
		p.Logf("%d turns, the slowest took %v", turns.Load(), time.Duration(slowest.Load()))
	})
}

// When there are new credentials all commands use them, nobody notices, and leases are
// kept.
func TestCommandsUseNewCredentials(t *testing.T) {
	users := []string{"monday", "tuesday", "wednesday"}
	s := newStaff(t, users...)
	p := open(t, s.client, "kit")
	held := p.take()
	turns, stop := p.work(64)
	defer stop()
	for i, user := range users {
		await.Until(t, "the callers work", func() bool { return t.Failed() || turns.Load() > int64(1000*(i+1)) })
		if i+1 == len(users) {
			break
		}
		s.provider.rotate(users[i+1])
		p.renew(held, true)
		await.Until(t, "the connections of "+user+" are closed", func() bool { return s.connections(user) == 0 })
		do(t, s.raw, "ACL", "DELUSER", user)
		p.renew(held, true)
	}
	stop()
	await.Until(t, fmt.Sprint("the last user has 1 to ", connsMost, " connections"), func() bool { // the server may not have seen yet that others are closed
		n := s.connections(users[len(users)-1])
		return n > 0 && n <= connsMost
	})
	p.release(held, false, store.Freed)
}

// However often the credentials change, the connections are replaced once in a while.
func TestABurstOfNewCredentialsIsNoStormOfDials(t *testing.T) {
	s := newStaff(t, "odd", "even")
	p := open(t, s.client, "kit")
	turns, stop := p.work(8)
	defer stop()
	await.Until(t, "the callers work", func() bool { return t.Failed() || turns.Load() > 100 })
	before, start := s.provider.askings(), time.Now()
	for range 500 {
		s.provider.rotate("even")
		s.provider.rotate("odd")
		time.Sleep(time.Millisecond)
	}
	s.provider.rotate("even") // the last word
	await.Until(t, "the last credentials are used", func() bool { return s.connections("odd") == 0 })
	stop()
	replaced := int(time.Since(start)/rotationPause) + 2
	n := s.provider.askings() - before
	t.Logf("1001 times new credentials, %d connections were dialled", n)
	if n > 2*connsMost*replaced {
		t.Errorf("%d connections were dialled, want at most %d", n, 2*connsMost*replaced)
	}
}

// The Store listens to the provider from its first connection on until it is closed. An
// error of the provider's, and credentials that are known, change nothing.
func TestTheProviderIsSubscribedToOnce(t *testing.T) {
	s := newStaff(t, "first", "second")
	p, err := New(s.client, "kit", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	asks := &probe{t, p}
	s.provider.fails = errOdd
	_, err = p.Acquire(t.Context(), store.Request{Ref: asks.ref(time.Minute)})
	if e := store.AsError(err); !errors.Is(err, errOdd) || e.Ambiguous || e.Permanent {
		t.Errorf("Acquire = %+v, want %v", e, errOdd)
	}
	if n := s.provider.heardBy(); n != 0 {
		t.Errorf("%d listeners without a subscription, want none", n)
	}
	s.provider.mu.Lock()
	s.provider.fails = nil
	s.provider.mu.Unlock()
	_, stop := asks.work(64)
	await.Until(t, "the callers have several connections", func() bool { return t.Failed() || p.single.Connections() > 1 })
	stop()
	await.Until(t, "the Store alone listens", func() bool { return s.provider.heardBy() == 1 })
	var before []string
	await.Until(t, "the server has the Store's connections and no others", func() bool {
		before = s.ids("first")
		return len(before) == p.single.Connections()
	})
	s.provider.mu.Lock()
	listener := s.provider.listeners[0]
	s.provider.mu.Unlock()
	listener.OnError(errOdd)
	s.provider.rotate("first")
	asks.release(asks.take(), false, store.Freed)
	after := s.ids("first")
	if slices.ContainsFunc(before, func(id string) bool { return !slices.Contains(after, id) }) {
		t.Errorf("connections %v, want all of %v: nothing has changed", after, before)
	}
	s.provider.rotate("second")
	await.Until(t, "the connections are replaced", func() bool { return s.connections("first") == 0 })
	asks.release(asks.take(), false, store.Freed)
	if err := p.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if n := s.provider.heardBy(); n != 0 {
		t.Errorf("%d listeners after Close, want none", n)
	}
	s.provider.rotate("first")
}

// A user who is deleted loses the connections: what is under way may have been carried
// out, and the next error says what is wrong.
func TestADeletedUser(t *testing.T) {
	u := newUser(t)
	p, _ := u.may(minimalACL)
	turns, stop := p.work(8)
	await.Until(t, "the callers work", func() bool { return t.Failed() || turns.Load() > 100 })
	stop()
	do(t, u.raw, "CLIENT", "PAUSE", 60_000, "WRITE")
	callers := min(p.single.Connections(), 3) // more would share connections
	ended := make(chan error, callers)
	for i := range callers {
		r := p.ref(time.Minute)
		r.Key = fmt.Sprint("key ", i)
		go func() { _, err := p.Acquire(t.Context(), store.Request{Ref: r}); ended <- err }()
	}
	await.Until(t, "the server has all commands", func() bool {
		return strings.Count(u.raw.ClientList(t.Context()).Val(), " cmd=set ") == callers
	})
	do(t, u.raw, "ACL", "DELUSER", "locker")
	for range callers {
		err := await.Receive(t, "a call under way", ended)
		if e := store.AsError(err); err == nil || !e.Ambiguous || e.Permanent {
			t.Errorf("Acquire = %v: %+v, want it ambiguous", err, e)
		}
	}
	do(t, u.raw, "CLIENT", "UNPAUSE")
	await.Until(t, "the end of all connections is seen", func() bool { return p.single.Connections() == 0 })
	for range 2 {
		for what, ask := range p.questions(p.ref(time.Minute)) {
			wantVerdict(t, what, ask(), lasting, "WRONGPASS")
		}
	}
}
