package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestPingSaysWhatIsWrong(t *testing.T) {
	s := redistest.Real(t)
	admin := s.Client(t)
	set := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// All that the README's user may do, without some of it.
	user := func(name string, without ...string) func(o *redis.Options) {
		rights := "+evalsha +eval +time +get +set +del +exists +pttl +pexpire +zadd +zrange +zrem +zpopmin +zscore +zcard +zcount " +
			"+hset +hget +hdel +hgetall +publish +pubsub|numsub +subscribe +ping +client|setname +info +scan"
		args := []any{"ACL", "SETUSER", name, "on", ">secret", "resetkeys", "~lock:*", "resetchannels", "&lock:grants:*", "-@all"}
		for right := range strings.FieldsSeq(rights) {
			if !slices.Contains(without, right) {
				args = append(args, right)
			}
		}
		set(args...)
		return func(o *redis.Options) { o.Username, o.Password = name, "secret" }
	}
	wrong := func(o *redis.Options) { o.Username, o.Password = "all", "wrong" }
	for _, tc := range []struct {
		name   string
		client *redis.Client
		fatal  bool
		says   []string // as the error if it is fatal, else as advice; nil: all is well
	}{
		{"all is well", s.Client(t), false, nil},
		{"the README's user", s.Client(t, user("all", "")), false, nil},
		{"a wrong password", s.Client(t, wrong), true, []string{"WRONGPASS"}},
		{"no right to ZADD", s.Client(t, user("zadd", "+zadd")), true, []string{"may not run ZADD, see the ACL line"}},
		{"no right to SUBSCRIBE", s.Client(t, user("subscribe", "+subscribe")), false, []string{"may not run SUBSCRIBE, see the ACL line in lockmw's README: waiters find their turn by polling"}},
		{"no right to PUBSUB", s.Client(t, user("pubsub", "+pubsub|numsub")), false, []string{"may not run PUBSUB NUMSUB,"}},
		{"no right to INFO", s.Client(t, user("info", "+info")), false, []string{"may not run INFO, see \"A user for locks\" in lockmw's docs/redis.md"}},
		{"no right to SCAN", s.Client(t, user("scan", "+scan")), false, []string{"may not run SCAN,"}},
		{"README's own line, which has neither INFO nor SCAN", s.Client(t, user("line", "+info", "+scan")), false, []string{"may not run INFO,"}},
		{"nobody is there", redistest.NewClient(t, "127.0.0.1:1"), true, []string{"connection refused"}},
		{"several servers", redistest.NewClient(t, redistest.TurnsBetween(t, s.Addr(), redistest.Shared(t).Addr())), true, []string{"several servers answer at this address"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := testenv.Open(t, tc.client)
			for range 2 { // it asks anew each time
				err := askUntil(func(err error) bool { return (err != nil) == tc.fatal && (err == nil || unavailable(tc.says...)(err)) }, func() error { return l.Ping(context.Background()) })
				if (err != nil) != tc.fatal || errors.Is(err, lockmw.ErrUnavailable) != tc.fatal {
					t.Fatalf("Ping = %v, fatal %v", err, tc.fatal)
				}
				var report lockmw.Report
				doctorErr := askUntil(func(error) bool { return (report.Worst() == lockmw.SeverityError) == tc.fatal }, func() (err error) {
					report, err = l.Doctor(context.Background())
					return err
				})
				if doctorErr != nil || (report.Worst() == lockmw.SeverityError) != tc.fatal {
					t.Errorf("Doctor = %+v, %v, fatal %v", report, doctorErr, tc.fatal)
				}
				text := adviceIn(report)
				if tc.fatal {
					text = err
				}
				if (text == nil) != (tc.says == nil) {
					t.Fatalf("told %v, want %q", text, tc.says)
				}
				for _, what := range tc.says {
					if got := text.Error(); tc.fatal && !strings.HasPrefix(got, "lockmw: ping: ") || !strings.Contains(got, what) || tc.fatal && strings.ContainsAny(got, "\n") || strings.Contains(got, "secret") {
						t.Errorf("told %s, want %s", got, what)
					}
				}
			}
		})
	}

	l := testenv.Open(t, s.Client(t))
	set("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if err := answered(func() error { return l.Ping(context.Background()) }); err != nil {
		t.Errorf("Ping = %v where locks work", err)
	}
	if report, err := l.Doctor(context.Background()); err != nil || report.Worst() != lockmw.SeverityAdvice || !strings.Contains(report[0].What, "set noeviction") {
		t.Errorf("%v, %v, want advice about maxmemory-policy", report, err)
	}
	set("CONFIG", "SET", "maxmemory-policy", "noeviction")
	if err := answered(func() error { return l.Ping(context.Background()) }); err != nil {
		t.Errorf("after the mend: %v", err)
	}
	if report, err := l.Doctor(context.Background()); err != nil || len(report) != 1 || report[0] != (lockmw.Finding{Severity: lockmw.SeverityOK, What: "locks work in this Redis"}) {
		t.Errorf("after the mend: %+v, %v", report, err)
	}
	if report, err := l.Doctor(over()); !errors.Is(err, context.Canceled) {
		t.Errorf("Doctor of nobody = %+v, %v, want that its context has ended", report, err)
	}
	set("CONFIG", "SET", "min-replicas-to-write", "1") // as on a replica, what reads is answered
	if err := askUntil(unavailable("NOREPLICAS"), func() error { return l.Ping(context.Background()) }); !unavailable("NOREPLICAS")(err) {
		t.Errorf("Ping = %v, want that nobody can write", err)
	}
	set("CONFIG", "SET", "min-replicas-to-write", "0")
	if keys := admin.Keys(t.Context(), "*}").Val(); len(keys) > 0 {
		t.Errorf("Ping left %q", keys)
	}
	closesSoon(t, l)
	if err := l.Ping(context.Background()); !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if report, err := l.Doctor(context.Background()); !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("Doctor after Close: %+v, %v", report, err)
	}
}

// adviceIn is the advice of a report, or nil.
func adviceIn(report lockmw.Report) error {
	var all []error
	for _, f := range report {
		if f.Severity == lockmw.SeverityAdvice {
			all = append(all, f.Err)
		}
	}
	return errors.Join(all...)
}

// Where replicas are to confirm each lock and are not there, no lock is given: Ping says so.
func TestPingCountsTheReplicasThatAreToConfirm(t *testing.T) {
	master, replica := redistest.Real(t), redistest.Real(t)
	l := testenv.Open(t, master.Client(t), lockmw.WithReplicaAcks(1, 500*time.Millisecond))
	if err := askUntil(unavailable("0 replicas"), func() error { return l.Ping(context.Background()) }); !unavailable("0 replicas")(err) {
		t.Errorf("Ping = %v, want that there are no replicas", err)
	}
	follow(t, replica, master)
	await.Within(t, time.Minute, "the replica is there", func() bool { return l.Ping(context.Background()) == nil })
}

// follow makes a server a replica of another one.
func follow(t *testing.T, replica, master *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Client(t).Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
}

// A user who may not run WAIT has no lock that replicas are to confirm: Ping of such a Locker says so. Others have their locks, and Ping returns nil.
func TestPingTellsThatTheUserMayNotRunWait(t *testing.T) {
	master, replica := redistest.Real(t), redistest.Real(t)
	admin := master.Client(t)
	follow(t, replica, master)
	acks := lockmw.WithReplicaAcks(1, 500*time.Millisecond)
	all := testenv.Open(t, admin, acks)
	await.Within(t, time.Minute, "the replica is there", func() bool { return all.Ping(context.Background()) == nil })
	user := func(o *redis.Options) { o.Username, o.Password = "locks", "secret" }
	may := func(wait string) {
		t.Helper()
		if err := admin.Do(t.Context(), "ACL", "SETUSER", "locks", "on", ">secret", "~lock:*", "&lock:grants:*", "+@all", wait).Err(); err != nil {
			t.Fatal(err)
		}
	}
	may("-wait")
	confirmed, plain := testenv.Open(t, master.Client(t, user), acks), testenv.Open(t, master.Client(t, user))
	mayNot := unavailable(`may not run WAIT, see "A user for locks" in lockmw's docs/redis.md: no replica can confirm a lock`)
	err := askUntil(mayNot, func() error { return confirmed.Ping(context.Background()) })
	if !mayNot(err) {
		t.Errorf("Ping = %v, want that the user may not run WAIT", err)
	}
	if report, err := confirmed.Doctor(context.Background()); err != nil || report.Worst() != lockmw.SeverityError {
		t.Errorf("Doctor = %+v, %v, want an error", report, err)
	}
	if err := confirmed.WithLock(context.Background(), "a", lockmw.Policy{}, held); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("the lock is given: %v", err)
	}
	if err := answered(func() error { return plain.Ping(context.Background()) }); err != nil {
		t.Errorf("Ping of a Locker that asks no replica = %v", err)
	}
	if report, err := plain.Doctor(context.Background()); err != nil || report.Worst() != lockmw.SeverityOK {
		t.Errorf("Doctor of a Locker that asks no replica = %+v, %v", report, err)
	}
	may("+wait")
	if err := answered(func() error { return confirmed.Ping(context.Background()) }); err != nil {
		t.Errorf("Ping = %v, though the user may run WAIT now", err)
	}
}

func TestPingOfAQuorum(t *testing.T) {
	a, b, c := redistest.Embedded(t), redistest.Embedded(t), redistest.Real(t)
	l, err := lockmw.NewQuorum([]redis.UniversalClient{a.Client(t), b.Client(t), c.Client(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(over()) })
	if err := answered(func() error { return l.Ping(context.Background()) }); err != nil {
		t.Error(err)
	}
	c.Kill()
	if err := answered(func() error { return l.Ping(context.Background()) }); err != nil {
		t.Errorf("one node is away: %v", err)
	}
	if report, err := l.Doctor(context.Background()); err != nil || !strings.Contains(fmt.Sprint(adviceIn(report)), c.Addr()) {
		t.Errorf("one node is away: %+v, %v", report, err)
	}
	b.SetError("LOADING")
	if err := l.Ping(context.Background()); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("two nodes are away: %v", err)
	}
}
