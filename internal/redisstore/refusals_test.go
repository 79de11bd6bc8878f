package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

var all = []string{"Acquire", "Release", "Release to the next", "Renew"}

// wantRefusals puts every question, with a lock held before the trouble began.
func (p *probe) wantRefusals(held store.Ref, want verdict, says string) {
	p.Helper()
	for _, what := range all {
		r := held
		if what == "Acquire" {
			r = p.ref(time.Minute)
		}
		wantVerdict(p.T, what, p.questions(r)[what](), want, says)
	}
}

// Out of memory, what takes memory is refused; what is held can be kept and
// given back.
func TestOutOfMemoryRefusesAcquireOnly(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	held := p.take()
	do(t, raw, "CONFIG", "SET", "maxmemory", "1")
	for _, name := range []string{"k", "another"} {
		r := store.Ref{Key: name, Token: p.NewToken(""), TTL: time.Minute}
		wantVerdict(t, "Acquire of "+name, p.questions(r)["Acquire"](), lasting, "OOM")
	}
	p.renew(held, true)
	p.release(held, false, store.Freed)
	do(t, raw, "CONFIG", "SET", "maxmemory", "0")
	p.release(p.take(), false, store.Freed)
}

// Readers too: their renewals write more than an expiry, and were refused once.
func TestOutOfMemoryRefusesNewReadersOnly(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	reader := func(name string) store.Ref {
		return store.Ref{Key: name, Token: p.NewToken(""), TTL: time.Minute, Kind: store.Kind{Shared: true}}
	}
	held, beside := reader("k"), reader("k")
	p.get(held, store.Try)
	p.get(beside, store.Try)
	do(t, raw, "CONFIG", "SET", "maxmemory", "1")
	for _, name := range []string{"k", "another"} {
		wantVerdict(t, "Acquire of "+name, p.questions(reader(name))["Acquire"](), lasting, "OOM")
	}
	for range 2 {
		p.renew(held, true)
		p.get(held, store.Try)
	}
	for range 2 {
		if did, _, err := p.Release(t.Context(), store.Give{Ref: held, Stay: time.Minute}); did != store.Freed || err != nil {
			t.Errorf("Release that stays = %v, %v, want %v", did, err, store.Freed)
		}
	}
	p.release(held, true, store.Freed)
	p.release(beside, true, store.Freed)
	if keys := raw.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("left: %q", keys)
	}
}

// A hand-over under way must not be lost to a lack of memory.
func TestOutOfMemoryReleaseHandsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	held, waits := p.take(), p.ref(time.Minute)
	p.refused(waits, store.Wait)
	do(t, raw, "CONFIG", "SET", "maxmemory", "1")
	p.release(held, false, store.HandedOver)
	p.renew(waits, true)
	p.release(waits, false, store.Freed)
}

// Also to one of whom Redis did not know, in whichever way it comes to its turn:
// passing on takes memory, and was refused once.
func TestOutOfMemoryAReleaseToTheNextHandsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	raw, p, other := s.Client(t), open(t, s.Client(t), "kit"), open(t, s.Client(t), "kit")
	for name, c := range map[string]struct {
		queued bool // another one waits
		place  store.Place
		first  bool // next comes before it
	}{
		"nobody waits":     {false, store.Place{}, true},
		"one came earlier": {true, store.Place{}, false},
		"one came later":   {true, store.Place{Waited: time.Minute}, true},
	} {
		held, next, waits := p.take(), p.ref(time.Minute), other.ref(time.Minute)
		if c.queued {
			other.refused(waits, store.Wait)
		}
		do(t, raw, "CONFIG", "SET", "maxmemory", "1")
		did, a, err := p.releaseTo(t.Context(), held, next, c.place)
		if did != store.HandedOver || a.Granted != c.first || err != nil {
			t.Errorf("%s: Release to the next = %v, %+v, %v, want %v, granted %v", name, did, a, err, store.HandedOver, c.first)
		}
		if c.first {
			p.renew(next, true)
			p.leave(next, true)
		} else {
			other.renew(waits, true)
			other.release(waits, true, store.HandedOver)
			p.release(next, true, store.Freed)
		}
		other.leave(waits, true)
		do(t, raw, "CONFIG", "SET", "maxmemory", "0")
	}
}

// Nor must work that goes on by a ticket: the lock was there before.
func TestOutOfMemoryALockIsHandedOnAndGoesOn(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	held, next := p.ref(time.Minute), p.ref(time.Minute)
	granted := p.get(held, store.Try)
	noteGrant(&held, granted)
	ticket := store.Ticket{Token: p.NewTicket(""), Lasts: time.Minute, Issuer: granted.Number()}
	do(t, raw, "CONFIG", "SET", "maxmemory", "1")
	if did, _, err := p.Release(t.Context(), store.Give{Ref: held, Ticket: ticket}); did != store.HandedOn || err != nil {
		t.Errorf("Release to a ticket = %v, %v, want %v", did, err, store.HandedOn)
	}
	if a, err := p.Acquire(t.Context(), store.Request{Ref: next, Ticket: &ticket}); err != nil || !a.Granted {
		t.Errorf("by the ticket: %+v, %v", a, err)
	}
	p.release(next, true, store.Freed)
}

func TestAReplicaRefusesForTheTimeBeing(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	p.scripted = true // SET is refused with READONLY in both cases
	held := p.take()
	do(t, raw, "REPLICAOF", "127.0.0.1", "1")
	p.wantRefusals(held, passing, "READONLY")
	do(t, raw, "CONFIG", "SET", "replica-serve-stale-data", "no")
	p.wantRefusals(held, passing, "MASTERDOWN")
	do(t, raw, "REPLICAOF", "NO", "ONE")
	p.release(held, false, store.Freed)
}

func TestTooFewReplicasRefuseForTheTimeBeing(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	held := p.take()
	do(t, raw, "CONFIG", "SET", "min-replicas-to-write", "1")
	p.wantRefusals(held, passing, "NOREPLICAS")
	do(t, raw, "CONFIG", "SET", "min-replicas-to-write", "0")
	p.release(held, false, store.Freed)
}

// What classify relies on: a state in which Redis takes no writes stops a script
// before its first write, and never after it. Here the state changes while a script
// runs, whose only replica ends.
func TestAScriptThatHasWrittenMayWriteOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, says string }{
		"written":                               {"redis.call('SET', 'first', '1')", ""},
		"only a key deleted that was not there": {"redis.call('DEL', 'first')", ""},
		"nothing written":                       {"redis.call('GET', 'first')", "NOREPLICAS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t, redistest.Args("--busy-reply-threshold", "1"))
			replica := redistest.Real(t, redistest.Args("--replicaof", strings.ReplaceAll(s.Addr(), ":", " ")))
			raw := s.Client(t)
			good := func(n string) func() bool {
				return func() bool {
					return strings.Contains(raw.Info(t.Context(), "replication").Val(), "min_slaves_good_slaves:"+n)
				}
			}
			do(t, raw, "CONFIG", "SET", "min-replicas-to-write", "1")
			await.Until(t, "the replica is there", good("1"))
			client := s.Client(t, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = -1, -1 })
			ended := make(chan error, 1)
			go func() {
				ended <- client.Eval(context.Background(), c.first+`
					repeat until string.find(redis.call('INFO', 'replication'), 'min_slaves_good_slaves:0', 1, true)
					return redis.call('SET', 'second', '1')`, nil).Err()
			}()
			await.Until(t, "the script runs", func() bool { return redis.HasErrorPrefix(raw.Ping(t.Context()).Err(), "BUSY") })
			replica.Kill()
			if err := await.Receive(t, "the script's end", ended); c.says == "" && err != nil || c.says != "" && !redis.HasErrorPrefix(err, c.says) {
				t.Errorf("err = %v, want %q", err, c.says)
			}
		})
	}
}

func TestAServerThatCannotSaveRefusesForTheTimeBeing(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	held := p.take()
	if err := s.FailToSave(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.wantRefusals(held, passing, "MISCONF")
	do(t, raw, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	p.release(held, false, store.Freed)
}

func TestABusyServerRefusesForTheTimeBeing(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, redistest.Args("--busy-reply-threshold", "1"))
	p := open(t, s.Client(t), "kit")
	held := p.take()
	p.renew(held, true)
	loop := s.Client(t, func(o *redis.Options) { o.ReadTimeout = -1; o.MaxRetries = -1 })
	ended := make(chan error, 1)
	go func() { ended <- loop.Eval(context.Background(), "while true do end", nil).Err() }()
	raw := s.Client(t)
	await.Until(t, "the server is busy", func() bool {
		return redis.HasErrorPrefix(raw.Ping(t.Context()).Err(), "BUSY")
	})
	p.wantRefusals(held, passing, "BUSY")
	do(t, raw, "SCRIPT", "KILL")
	await.Receive(t, "the script's end", ended)
	p.release(held, false, store.Freed)
}

func TestALoadingServerRefusesForTheTimeBeing(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, redistest.Args("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024", "--save", "3600 1000000"))
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	held := p.take()
	p.renew(held, true)
	// 10,000 keys at a millisecond each last longer than the test; it does not
	// wait for the end.
	fill := `for i = 1, 10000 do redis.call('SET', 'filler:' .. i, string.rep('x', 100)) end return 1`
	if err := raw.Eval(t.Context(), fill, nil).Err(); err != nil {
		t.Fatal(err)
	}
	loader := s.Client(t, func(o *redis.Options) { o.ReadTimeout = -1; o.MaxRetries = -1 })
	ended := make(chan error, 1)
	go func() { ended <- loader.Do(t.Context(), "DEBUG", "RELOAD").Err() }()
	await.Until(t, "the server loads", func() bool {
		return redis.HasErrorPrefix(raw.Get(t.Context(), "filler:1").Err(), "LOADING")
	})
	p.wantRefusals(held, passing, "LOADING")
	s.Kill()
	await.Receive(t, "the end of the load", ended)
}

func TestMissingCredentialsAreAMistake(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, redistest.Args("--requirepass", "secret"))
	for said, password := range map[string]string{"NOAUTH": "", "WRONGPASS": "guess"} {
		for _, what := range all {
			p := open(t, s.Client(t, func(o *redis.Options) { o.Password = password }), "kit")
			wantVerdict(t, what, p.questions(p.ref(time.Minute))[what](), lasting, said)
			wantVerdict(t, "Listen", p.listenBriefly(), lasting, said)
		}
	}
	p := open(t, s.Client(t, func(o *redis.Options) { o.Password = "secret" }), "kit")
	p.hear()
	p.release(p.take(), false, store.Freed)
}

func TestTooManyClientsPass(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, redistest.Args("--maxclients", "2"))
	raw := s.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	do(t, raw, "PING")
	second, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	await.Until(t, "the second client is counted", func() bool {
		return strings.Contains(raw.Info(t.Context(), "clients").Val(), "connected_clients:2")
	})
	p := open(t, s.Client(t), "kit")
	for what, ask := range p.questions(p.ref(time.Minute)) {
		e := (*store.Error)(nil)
		if err := ask(); !errors.As(err, &e) || e.Permanent {
			t.Errorf("%s = %v, want an error that is not permanent", what, err)
		}
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	r := p.ref(time.Minute)
	await.Until(t, "there is room", func() bool {
		a, err := p.Acquire(t.Context(), store.Request{Ref: r})
		return err == nil && a.Granted
	})
}
