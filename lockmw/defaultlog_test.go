package lockmw_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Who has given no logger is told of mistakes of the program, of keys that have several spellings and of uncertain work, each once, and of nothing else.
func TestMistakesAreLoggedWithoutALogger(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for _, tc := range []struct {
		name string
		opts []lockmw.Option
		want []string
	}{
		{"no logger", nil, []string{
			`ERROR LOCK_MISUSE lockmw: acquire "order:": no such parameter`,
			"WARN  ", // a key that has several spellings
			`ERROR IDEMPOTENCY_UNCERTAIN lockmw: `,
		}},
		{"silenced", []lockmw.Option{lockmw.WithLogger(slog.New(slog.DiscardHandler))}, nil},
	} {
		var log testenv.Log
		slog.SetDefault(slog.New(&log))
		client := redistest.Embedded(t).Client(t)
		l, err := lockmw.New(client, tc.opts...)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		p := lockmw.Policy{Prefix: "order:"}
		_, lease, err := l.Acquire(ctx, "42", p)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Acquire(ctx, "42", p); err == nil { // contention
			t.Error("the key is acquired twice")
		}
		_ = l.Refuse(ctx, p, fmt.Errorf("%w: no header", lockmw.ErrInvalidKey)) // the client's mistake
		for range 3 {
			_ = l.Refuse(ctx, p, fmt.Errorf("no such parameter"))
		}
		for range 3 {
			door.OddInteger(ctx, l, p, "/orders/{id}", "param", "id")
		}
		_ = lease.Release(ctx)
		for range 3 { // the first is told when it happens
			_, _, _ = lockmw.Do(ctx, l, "43", lockmw.Flight{Policy: p, Retain: time.Minute, Crash: lockmw.Uncertain}, func(context.Context) (int, error) { return 0, lockmw.ErrUncertain })
		}
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		got := log.Lines()
		for i := range got { // the id and the time of the work are its own
			got[i], _, _ = strings.Cut(got[i], "it is not known")
		}
		if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
			t.Errorf("%s: logged %q, want %q", tc.name, got, tc.want)
		}
	}
}

// withoutLogger opens a Locker of the service shop that is given no logger, and returns what it logs.
func withoutLogger(t *testing.T, m *redistest.Mini, opts ...lockmw.Option) (*lockmw.Locker, *testenv.Journal) {
	t.Helper()
	before, log := slog.Default(), new(testenv.Journal)
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	defer slog.SetDefault(before) // New has looked at it
	l, err := lockmw.New(m.Client(t), append([]lockmw.Option{lockmw.WithService("shop")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(over()) })
	return l, log
}

// Who has given no logger is told, once, that a file of settings does not apply until somebody mends it; and nothing where it applies.
func TestAFileThatDoesNotApplyIsLoggedWithoutALogger(t *testing.T) {
	const none, folder = "none", "folder"
	for _, tc := range []struct {
		text string // of the file
		want []string
	}{
		{none, []string{"level=WARN", "settings cannot be read", "no such file"}},
		{folder, []string{"level=WARN", "settings cannot be read", "no regular file"}},
		{`{"shop/pay": {"wait"`, []string{"level=ERROR", "cannot be read"}},
		{`{"shop/pay": {"off": true}}`, []string{"level=WARN", "shop/pay", "AllowOff"}},
		{`{"shop/pay": {"ttl": "4s"}}`, []string{"level=WARN", "does not fit", "name=pay"}},
		{`{"shop/pay": {"wait": "3s"}, "shop/other": {"ttl": "4s"}}`, nil},
	} {
		t.Run(tc.text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newSettingsDir(t, tc.text)
				path := d.file()
				switch tc.text {
				case none:
					path += ".other"
				case folder:
					path = d.path
				}
				m, source := redistest.InMemory(t), lockmw.WithSettings(lockmw.SettingsFile(path))
				l, log := withoutLogger(t, m, source)
				silenced, silence := withoutLogger(t, m, source, lockmw.WithLogger(slog.New(slog.DiscardHandler)))
				for range 2 {
					lockmw.Adjust(l, lockmw.Policy{Name: "pay"})
					lockmw.Adjust(silenced, lockmw.Policy{Name: "pay"})
					looked()
				}
				if n := log.Count(); n != min(len(tc.want), 1) || log.Count(tc.want...) != n {
					t.Errorf("want a line with %q, the log:\n%s", tc.want, log.Text())
				}
				if silence.Count() != 0 {
					t.Errorf("a log that was silenced:\n%s", silence.Text())
				}
				if tc.text != none {
					return
				}
				if err := os.WriteFile(path, []byte(`{}`), 0o600); err != nil {
					t.Fatal(err)
				}
				looked()
				if log.Count() != 2 || log.Count("settings can be read again") != 1 {
					t.Errorf("with the file, the log:\n%s", log.Text())
				}
			})
		})
	}
}

// Of a lot of settings that the program does not allow the first are named, and it is told that there are more.
func TestALotThatIsNotAllowedIsLoggedWithoutALogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		for i := range 30 {
			all = append(all, fmt.Sprintf("%q: {%q: true}", fmt.Sprint("shop/p", i), "off"))
		}
		d := newSettingsDir(t, "{"+strings.Join(all, ",")+"}")
		_, log := withoutLogger(t, redistest.InMemory(t), lockmw.WithSettings(lockmw.SettingsFile(d.file())))
		looked()
		if log.Count("AllowOff", "setting=shop/p") != 20 || log.Count("AllowOff", "number=10") != 1 || log.Count() != 21 {
			t.Errorf("the log:\n%s", log.Text())
		}
		d.write(`{}`)
		looked()
		if log.Count() != 21 {
			t.Errorf("when they are gone, the log:\n%s", log.Text())
		}
	})
}

// Of settings in Redis, a missing right and an entry that cannot be used are logged without a logger. That Redis is away is not: that is nothing
// about settings.
func TestSettingsInRedisThatDoNotApplyAreLoggedWithoutALogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.InMemory(t)
		l, log := withoutLogger(t, m, lockmw.WithSettings(lockmw.SettingsInRedis()), lockmw.AllowOff())
		put(t, l, "shop/pay", `{"shadow":"true"}`)
		said := func(lines int, parts ...string) {
			t.Helper()
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if n := log.Count(); n != lines || n > 0 && log.Count(parts...) != 1 {
				t.Errorf("%d lines, want %d, and %q:\n%s", n, lines, parts, log.Text())
			}
		}
		said(0)
		m.SetError("LOADING Redis is loading the dataset in memory")
		said(0)
		m.SetError("")
		said(0)
		m.SetError("NOPERM User locks has no permissions to run the 'hgetall' command")
		said(1, "level=WARN", "settings cannot be read", "docs/redis.md", "still_shadow=[shop/pay]")
		m.SetError("")
		said(2, "settings can be read again")
		put(t, l, "shop/pay", `nonsense`)
		said(3, "level=WARN", "shop/pay", "changes nothing")
	})
}

// Work that runs without its lock is logged also where nobody has given a logger, at its begin and every minute.
func TestOffIsLoggedWithoutALogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSettingsDir(t, `{"shop/pay": {"off": true, "author": "ada", "reason": "INC-42"}}`)
		l, log := withoutLogger(t, redistest.InMemory(t), lockmw.WithSettings(lockmw.SettingsFile(d.file())), lockmw.AllowOff())
		mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"}))
		for minute := range 3 {
			synctest.Wait()
			if n := log.Count("level=ERROR", "OFF", "names=[pay]", "author=ada", "because=INC-42"); n != minute+1 || log.Count() != n {
				t.Errorf("after %d minutes, the log:\n%s", minute, log.Text())
			}
			time.Sleep(time.Minute + time.Second)
		}
	})
}
