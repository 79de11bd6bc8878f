package lockmw_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/older"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A textLog has what a Locker logs, as text.
type textLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *textLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *textLog) option() lockmw.Option {
	return lockmw.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

// lines returns the lines that have part in them.
func (l *textLog) lines(part string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// line waits for the one line that has part in it.
func (l *textLog) line(t *testing.T, part string) (line string) {
	t.Helper()
	await.Until(t, "a line in the log: "+part, func() bool {
		all := l.lines(part)
		if len(all) > 1 {
			t.Fatalf("logged %d times: %q", len(all), all)
		}
		return len(all) == 1 && strings.HasSuffix(all[0], "\n")
	})
	return l.lines(part)[0]
}

// wantsIn fails the test unless all texts are in line.
func wantsIn(t *testing.T, line string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(line, text) {
			t.Errorf("%q does not have %q", line, text)
		}
	}
}

var incident42 = lockmw.Intervention{Author: "ana@bastion", Reason: "INC-42: the export hangs, 100 % \u00fcber"}

// wantRevoked fails the test unless err says that the lock was taken by force, by whom and why.
func wantRevoked(t *testing.T, what string, err error, by lockmw.Intervention) {
	t.Helper()
	var revoked *lockmw.RevokedError
	if !errors.Is(err, lockmw.ErrLost) || !errors.As(err, &revoked) || revoked.Intervention != by {
		t.Errorf("%s = %v (%T), want a RevokedError with %+v", what, err, err, by)
	}
}

// listens waits until a Locker hears messages.
func listens(t *testing.T, l *lockmw.Locker, key string) {
	t.Helper()
	mustRelease(t, mustAcquire(t, l, key+":listens", patient))
	await.Until(t, "it listens", func() bool { return l.Stats().Subscribed })
}

func TestAHolderLearnsWhoTookItsLockAndWhy(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		var of, by events
		var holders, operators textLog
		l := testenv.Open(t, c, of.option(), holders.option())
		operator := testenv.Open(t, c, by.option(), operators.option())
		listens(t, l, key)
		lease := mustAcquire(t, l, key, lockmw.Policy{Name: "exports"})
		if err := operator.ForceReleaseAs(context.Background(), key, incident42); err != nil {
			t.Fatal(err)
		}
		await.Receive(t, "the end of the work", lease.Context().Done())
		wantRevoked(t, "the cause", context.Cause(lease.Context()), incident42)
		await.Until(t, "the event", func() bool { return len(of.of(lockmw.EventLost)) == 1 })
		lost := of.of(lockmw.EventLost)[0]
		wantRevoked(t, "the event's error", lost.Err, incident42)
		if lost.Intervention != incident42 {
			t.Errorf("the event has %+v", lost.Intervention)
		}
		wantsIn(t, holders.line(t, "lock was lost"), `reason="released by force"`, "author=ana@bastion", `because="INC-42: the export hangs, 100 % `+"\u00fc"+`ber"`)
		want := recent.Incident{Kind: "lost", Name: "exports", Key: key, Reason: "released by force by ana@bastion: " + incident42.Reason}
		await.Until(t, "it is kept for the console", func() bool { got := incidents(l); return len(got) == 1 && got[0] == want })

		// At the side of who releases.
		wantsIn(t, operators.line(t, "released by force"), "level=WARN", "key="+key, "author=ana@bastion", "because=")
		if told := by.of(lockmw.EventForceReleased); len(told) != 1 || told[0].Key != key || told[0].Intervention != incident42 {
			t.Errorf("the operator's side was told %+v", told)
		}
		if got, want := incidents(operator), (recent.Incident{Kind: "released by force", Key: key, Reason: incident42.String()}); len(got) != 1 || got[0] != want {
			t.Errorf("the operator's side keeps %+v, want %+v", got, want)
		}
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("release = %v, want ErrLost", err)
		}
	})
}

// ForceRelease names nobody, and so does one of an older version, which sends the first message alone.
func TestAForcedReleaseWithoutAReason(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, operator := testenv.Open(t, c), testenv.Open(t, c)
		listens(t, l, key)
		for name, release := range map[string]func() error{
			"by ForceRelease": func() error { return operator.ForceRelease(context.Background(), key) },
			"by an older version": func() error {
				lock := "lock:{" + key + "}"
				keys := []string{lock, lock + ":queue", lock + ":alive", lock + ":fence", lock + ":holders"}
				return redis.NewScript(older.BeforeCoolDown()["force"]).Run(context.Background(), c, keys, "lock:grants:").Err()
			},
		} {
			lease := mustAcquire(t, l, key, patient)
			if err := release(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			await.Receive(t, "the end of the work", lease.Context().Done())
			wantRevoked(t, name+": the cause", context.Cause(lease.Context()), lockmw.Intervention{})
			if got, want := context.Cause(lease.Context()).Error(), "lockmw: lock was lost: released by force"; got != want {
				t.Errorf("%s: the cause reads %q, want %q", name, got, want)
			}
			_ = lease.Release(context.Background())
		}
	})
}

// A process knows of what it does itself without any message, and so it does on a quorum, which sends none.
func TestAProcessThatTakesALockFromItself(t *testing.T) {
	lockers := map[string]func(*testing.T) *lockmw.Locker{
		"that does not listen": func(t *testing.T) *lockmw.Locker { return testenv.Open(t, redistest.Shared(t).Client(t)) },
		"on a quorum":          func(t *testing.T) *lockmw.Locker { return newNodes(t, 3).locker(t) },
	}
	for name, open := range lockers {
		t.Run(name, func(t *testing.T) {
			l, key := open(t), redistest.Prefix(t)
			lease := mustAcquire(t, l, key, lockmw.Policy{})
			if err := l.ForceReleaseAs(context.Background(), key, incident42); err != nil {
				t.Fatal(err)
			}
			await.Receive(t, "the end of the work", lease.Context().Done())
			wantRevoked(t, "the cause", context.Cause(lease.Context()), incident42)
			_ = lease.Release(context.Background())
		})
	}
}

// What hangs on a lock that is taken ends with its cause: a part of it that was joined, and several keys.
func TestTheReasonReachesWhatReliesOnTheLock(t *testing.T) {
	c, key := redistest.Shared(t).Client(t), redistest.Prefix(t)
	l := testenv.Open(t, c)
	ctx, several, err := l.AcquireAll(context.Background(), []string{key + "a", key + "b"}, patient)
	if err != nil {
		t.Fatal(err)
	}
	nested := patient
	nested.Reentrant = true
	within, joined, err := l.Acquire(ctx, key+"a", nested)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.ForceReleaseAs(context.Background(), key+"a", incident42); err != nil {
		t.Fatal(err)
	}
	for name, ctx := range map[string]context.Context{"of several keys": ctx, "of a nested call": within} {
		await.Receive(t, "the end of the work", ctx.Done())
		wantRevoked(t, "the cause "+name, context.Cause(ctx), incident42)
	}
	_ = joined.Release(ctx)
	_ = several.Release(ctx)
}

func TestTextsOfAnInterventionAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var seen events
		l := testenv.Open(t, s.Client(t), seen.option())
		lease := mustAcquire(t, l, "k", lockmw.Policy{})
		for name, by := range map[string]lockmw.Intervention{
			"a long author":       {Author: strings.Repeat("a", 129)},
			"a long reason":       {Reason: strings.Repeat("\u00fc", 129)},
			"several lines":       {Reason: "INC-42\nlevel=INFO msg=\"all is well\""},
			"a terminal's escape": {Author: "\x1b[2J"},
			"what is no text":     {Author: "\xff"},
		} {
			if err := l.ForceReleaseAs(context.Background(), "k", by); !errors.Is(err, lockmw.ErrInvalidPolicy) {
				t.Errorf("%s: ForceReleaseAs = %v, want ErrInvalidPolicy", name, err)
			}
			if err := l.ResolveAs(context.Background(), "k", "1", lockmw.Again, by); !errors.Is(err, lockmw.ErrInvalidPolicy) {
				t.Errorf("%s: ResolveAs = %v, want ErrInvalidPolicy", name, err)
			}
		}
		if !lease.Valid() || len(seen.of(lockmw.EventForceReleased)) > 0 {
			t.Error("something was released")
		}
		longest := lockmw.Intervention{Author: strings.Repeat("\u00fc", 64), Reason: strings.Repeat("=", 256)}
		if err := l.ForceReleaseAs(context.Background(), "k", longest); err != nil {
			t.Fatal(err)
		}
		wantRevoked(t, "the cause", context.Cause(lease.Context()), longest)
		_ = lease.Release(context.Background())
	})
}

func TestWhoResolvesWorkIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var seen events
		var log textLog
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t), seen.option(), log.option())
		panics(t, l, key, uncertain)
		id := wantUncertain(t, l, key, uncertain)
		if err := l.ResolveAs(context.Background(), key, id, lockmw.Again, incident42); err != nil {
			t.Fatal(err)
		}
		if told := seen.of(lockmw.EventResolved); len(told) != 1 || told[0].Key != key || told[0].Resolution != "again" || told[0].Intervention != incident42 {
			t.Errorf("told %+v", told)
		}
		wantsIn(t, log.line(t, "resolved by hand"), "work="+id, "as=again", "author=ana@bastion", "because=")
		want := recent.Incident{Kind: "resolved", Key: key, Reason: "as again by ana@bastion: " + incident42.Reason}
		if kept := incidents(l); !slices.Contains(kept, want) {
			t.Errorf("kept: %+v, want %+v", kept, want)
		}
	})
}
