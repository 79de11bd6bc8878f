package matrix

import (
	"time"

	"github.com/lockmw/kit/proof/admin"
	"github.com/lockmw/kit/proof/clock"
)

// do has the Redis of a lane with one server carry out a command.
func (l *Lane) do(args ...any) {
	if err := admin.Do(l.admin, args...); err != nil {
		l.tb.Errorf("%s: %v: %v", l.Name, args, err)
	}
}

// check notes an error of the nemesis itself.
func (l *Lane) check(err error) {
	if err != nil {
		l.tb.Errorf("%s: %v", l.Name, err)
	}
}

// server lists what a Redis can do that still keeps its word.
func server() []Kind {
	during := func(begin, end []any) func(*Lane) []string { // 0.96 to 1.44 TTLs
		return func(l *Lane) []string {
			l.do(begin...)
			l.last(l.part(1.2))
			l.do(end...)
			return nil
		}
	}
	repeat := func(times int, pause time.Duration, args ...any) func(*Lane) []string {
		return func(l *Lane) []string {
			for range times {
				l.do(args...)
				l.last(pause)
			}
			return nil
		}
	}
	hang := func(share float64) func(*Lane) []string {
		return func(l *Lane) []string {
			l.check(l.redis.Stop())
			l.last(l.part(share))
			l.check(l.redis.Cont())
			return nil
		}
	}
	return []Kind{
		{Name: "Redis stopped, shorter than the TTL", Do: hang(0.3)},
		{Name: "Redis stopped, longer than the TTL", Do: hang(1.4)},
		{Name: "Redis busy with a script", Do: func(l *Lane) []string {
			end := time.Now().Add(l.part(0.4))
			const burn = `local t = redis.call('TIME') local till = t[1] * 1000000 + t[2] + ARGV[1]
				repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > till return 1`
			for left := time.Until(end); left > 0; left = time.Until(end) {
				slice := min(left, 400*time.Millisecond) // below the admin client's ReadTimeout
				l.do("EVAL", burn, 0, slice.Microseconds())
			}
			return nil
		}},
		{Name: "SCRIPT FLUSH", Do: repeat(25, 20*time.Millisecond, "SCRIPT", "FLUSH")},
		{Name: "CLIENT KILL TYPE pubsub", Do: repeat(8, 100*time.Millisecond, "CLIENT", "KILL", "TYPE", "pubsub")},
		{Name: "CLIENT KILL TYPE normal", Do: repeat(3, 100*time.Millisecond, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")},
		{Name: "CLIENT PAUSE of everything", Do: func(l *Lane) []string {
			pause := l.part(0.4)
			l.do("CLIENT", "PAUSE", pause.Milliseconds())
			l.last(pause)
			return nil
		}},
		{Name: "CLIENT PAUSE of writes", Do: func(l *Lane) []string {
			pause := l.part(1.2)
			l.do("CLIENT", "PAUSE", pause.Milliseconds(), "WRITE")
			l.last(pause)
			return nil
		}},
		{Name: "OOM", Do: during([]any{"CONFIG", "SET", "maxmemory", 1}, []any{"CONFIG", "SET", "maxmemory", 0})},
		{Name: "NOREPLICAS", Do: during([]any{"CONFIG", "SET", "min-replicas-to-write", 1}, []any{"CONFIG", "SET", "min-replicas-to-write", 0})},
		{Name: "READONLY", Do: during([]any{"REPLICAOF", "127.0.0.1", 1}, []any{"REPLICAOF", "NO", "ONE"})},
		{Name: "NOPERM", Do: during([]any{"ACL", "SETUSER", "default", "-evalsha", "-eval"}, []any{"ACL", "SETUSER", "default", "+evalsha", "+eval"})},
		{Name: "max clients", Do: func(l *Lane) []string {
			l.do("CONFIG", "SET", "maxclients", 2)
			l.proxies[l.place()].Cut()
			l.last(l.part(1.2))
			l.do("CONFIG", "SET", "maxclients", 10000)
			return nil
		}},
		{Name: "Redis killed and restarted, with appendfsync always", Needs: fromFile, Do: func(l *Lane) []string {
			l.redis.Kill()
			l.last(l.part(0.5))
			l.check(l.redis.Restart())
			return nil
		}},
		{Name: "another client takes the turns of a key", Do: func(l *Lane) []string {
			const key, turns = "f", 5
			var freed time.Duration
			deadline := clock.Now() + l.patience()
			for noted := 0; noted < turns; l.last(l.TTL / 50) {
				var is bool
				if freed, is = l.rival.foreign(l, l.nameNow(key), l.TTL/20); is {
					noted++
				}
				if noted < turns && clock.Now() > deadline {
					l.tb.Errorf("%s: another client took %d turns, want %d", l.Name, noted, turns)
					break
				}
			}
			if _, dead := l.alive(freed, []string{key}); len(dead) > 0 {
				l.tb.Errorf("%s: no worker takes %s after another client had it", l.Name, key)
			}
			return nil
		}},
	}
}
