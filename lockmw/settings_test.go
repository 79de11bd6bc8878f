package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// settingsOf is what a Locker says of its settings.
func settingsOf(l *lockmw.Locker) []lockmw.Setting { return seam.Settings(l).([]lockmw.Setting) }

// changeOf is what applies to a name, as text; empty: nothing.
func changeOf(l *lockmw.Locker, name string) string {
	for _, s := range settingsOf(l) {
		if slices.Contains(s.Names, name) {
			return s.Change
		}
	}
	return ""
}

// A settingsDir is a folder as Kubernetes mounts a ConfigMap: the file is a link through another link, which is swapped.
type settingsDir struct {
	tb   testing.TB
	path string // of the folder
	n    int
}

func newSettingsDir(tb testing.TB, text string) *settingsDir {
	d := &settingsDir{tb: tb, path: tb.TempDir()}
	d.write(text)
	if err := os.Symlink("..data/settings.json", d.file()); err != nil {
		tb.Fatal(err)
	}
	return d
}

func (d *settingsDir) file() string { return filepath.Join(d.path, "settings.json") }

// write swaps the folder behind the link for another one, in which the file has that text.
func (d *settingsDir) write(text string) {
	d.tb.Helper()
	d.n++
	version := fmt.Sprint("..version", d.n)
	err := errors.Join(
		os.Mkdir(filepath.Join(d.path, version), 0o700),
		os.WriteFile(filepath.Join(d.path, version, "settings.json"), []byte(text), 0o600),
		os.Symlink(version, filepath.Join(d.path, "..next")),
		os.Rename(filepath.Join(d.path, "..next"), filepath.Join(d.path, "..data")),
	)
	if err != nil {
		d.tb.Fatal(err)
	}
}

// inFile runs test in a bubble with a Locker of the service shop whose settings come from a file.
func inFile(t *testing.T, text string, test func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *testenv.Journal, e *events), opts ...lockmw.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, log, e := newSettingsDir(t, text), new(testenv.Journal), new(events)
		l := testenv.Open(t, redistest.InMemory(t).Client(t), append([]lockmw.Option{
			log.Option(), e.option(), lockmw.WithService("shop"), lockmw.WithSettings(lockmw.SettingsFile(d.file())),
		}, opts...)...)
		test(t, d, l, log, e)
	})
}

// looked waits until a file was looked at, and the log and observers were told.
func looked() {
	time.Sleep(2*time.Second + time.Millisecond) // of the bubble
	synctest.Wait()
}

// waitsFor returns how long a call waits for a lock that is held.
func waitsFor(t *testing.T, l *lockmw.Locker, p lockmw.Policy) time.Duration {
	t.Helper()
	began := time.Now()
	_, _, err := l.Acquire(t.Context(), "held", p)
	if !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Fatalf("Acquire = %v, want that it is held", err)
	}
	return time.Since(began).Round(100 * time.Millisecond)
}

func TestASettingInAFileChangesCallsThatComeLater(t *testing.T) {
	inFile(t, `{}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *testenv.Journal, e *events) {
		pay := lockmw.Policy{Name: "pay", Wait: time.Second, TTL: time.Hour}
		mustAcquire(t, l, "held", pay)
		if got := waitsFor(t, l, pay); got != time.Second {
			t.Errorf("before, a call waits for %v", got)
		}
		d.write(`{"shop/pay": {"wait": "3s", "author": "ada", "reason": "INC-42"}, "other/*": {"wait": "none"}}`)
		looked()
		if got := waitsFor(t, l, pay); got != 3*time.Second {
			t.Errorf("a call waits for %v, want 3s", got)
		}
		if got := waitsFor(t, l, lockmw.Policy{Name: "mail", Wait: time.Second}); got != time.Second {
			t.Errorf("one of another name waits for %v", got)
		}
		if got := waitsFor(t, l, lockmw.Policy{Name: "pay", Retries: lockmw.Forever}); got != 3*time.Second {
			t.Errorf("one that waits for ever waits for %v, want 3s", got)
		}
		d.write(`{"shop/pay": {"wait": "none"}}`)
		looked()
		for _, p := range []lockmw.Policy{pay, {Name: "pay", Retries: lockmw.Forever}, {Name: "pay", Wait: time.Second, Retries: lockmw.Forever}} {
			if got := waitsFor(t, l, p); got != 0 {
				t.Errorf("with none, %+v waits for %v", p, got)
			}
		}
		d.write(`{}`)
		looked()
		if got := waitsFor(t, l, pay); got != time.Second {
			t.Errorf("after, a call waits for %v", got)
		}
		began, ended := e.of(lockmw.EventSettingBegan), e.of(lockmw.EventSettingEnded)
		if len(began) != 2 || len(ended) != 2 {
			t.Fatalf("%d began and %d ended, want 2", len(began), len(ended))
		}
		if s := began[0].Setting; s.Pattern != "shop/pay" || s.Change != "wait=3s" || s.Author != "ada" || s.Reason != "INC-42" || s.Source != "file" || s.Off {
			t.Errorf("it is told as %+v", *s)
		}
		if log.Count("applies from now on", "author=ada", "because=INC-42") != 1 || log.Count("applies no more", "because=INC-42") != 1 {
			t.Errorf("the log:\n%s", log.Text())
		}
	})
}

func TestTheMostSpecificSettingCounts(t *testing.T) {
	inFile(t, `{"*/*": {"wait": "2s"}, "shop/*": {"wait": "3s"}, "shop/p*": {"maxHold": "1m"}, "*/pay": {"wait": "none"}}`, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, _ *testenv.Journal, _ *events) {
		for name, want := range map[string]string{"pay": "maxHold=1m0s", "mail": "wait=3s"} {
			mustAcquire(t, l, name, lockmw.Policy{Name: name})
			if got := changeOf(l, name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		mustAcquire(t, l, "1", lockmw.Policy{Prefix: "order:"}) // its Name is the Prefix
		if got := changeOf(l, "order:"); got != "wait=3s" {
			t.Errorf("order: has %q", got)
		}
	}, lockmw.AllowOff())
}

func TestSettingsOfTTLAndMaxHoldReachTheLease(t *testing.T) {
	inFile(t, `{"shop/*": {"ttl": "20s", "maxHold": "3s"}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, _ *testenv.Journal, _ *events) {
		lease := mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"})
		if left := time.Until(lease.ValidUntil()); left > 20*time.Second || left < 19*time.Second {
			t.Errorf("it is valid for %v", left)
		}
		d.write(`{"shop/*": {"maxHold": "none"}}`)
		looked()
		free := mustAcquire(t, l, "k2", lockmw.Policy{Name: "pay", MaxHold: time.Second})
		<-lease.Context().Done() // as it began, though the setting is another one now
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrMaxHold) || time.Since(time.Now()) > 0 {
			t.Errorf("it ends with %v", cause)
		}
		time.Sleep(10 * time.Second)
		if !free.Valid() {
			t.Error("a MaxHold of none has ended a lease")
		}
	}, lockmw.AllowOff())
}

// Work of which nobody knows is told for as long behind the lock's end as the program says, also where a setting has the lock last longer.
func TestASettingOfTTLLeavesTheTimeOfUncertainWork(t *testing.T) {
	inFile(t, `{"shop/pay": {"ttl": "1h"}}`, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, _ *testenv.Journal, _ *events) {
		f := lockmw.Flight{Policy: lockmw.Policy{Name: "pay"}, Crash: lockmw.Uncertain, Retain: time.Minute, UncertainFor: 10 * time.Minute}
		_, _, err := lockmw.Do(t.Context(), l, "k", f, func(context.Context) (string, error) { return "", lockmw.ErrUncertain })
		if !errors.Is(err, lockmw.ErrUncertain) {
			t.Errorf("Do = %v, want that nobody knows", err)
		}
		ask := func() error {
			_, _, err := lockmw.Do(t.Context(), l, "k", f, func(context.Context) (string, error) { return "paid twice", nil })
			return err
		}
		time.Sleep(time.Hour + 9*time.Minute)
		if err := ask(); !errors.Is(err, lockmw.ErrUncertain) {
			t.Errorf("after an hour and nine minutes: %v, want ErrUncertain", err)
		}
		time.Sleep(2 * time.Minute)
		if err := ask(); err != nil {
			t.Errorf("when its time is over: %v", err)
		}
	})
}

func TestASettingThatDoesNotFitLeavesThePolicyAlone(t *testing.T) {
	noop := func(context.Context) error { return nil }
	for _, test := range []struct {
		setting string
		policy  lockmw.Policy
		use     func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error
		fits    bool
	}{
		{`"ttl": "4s"`, lockmw.Policy{}, nil, false},
		{`"ttl": "5s"`, lockmw.Policy{}, nil, true},
		{`"ttl": "4s"`, lockmw.Policy{TTL: time.Second}, nil, true},
		{`"maxHold": "1s"`, lockmw.Policy{MinHold: 2 * time.Second}, nil, false},
		{`"maxHold": "1s", "wait": "9s"`, lockmw.Policy{MinHold: 2 * time.Second}, nil, false},
		{`"maxHold": "999ms"`, lockmw.Policy{}, nil, false},
		{`"maxHold": "999ms"`, lockmw.Policy{MaxHold: time.Minute}, nil, false},
		{`"maxHold": "999ms"`, lockmw.Policy{MaxHold: 500 * time.Millisecond}, nil, true},
		{`"maxHold": "1m"`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			return l.Leader("k", p).Run(ctx, held)
		}, false},
		{`"maxHold": "1m"`, lockmw.Policy{MaxHold: time.Hour}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, _, err := lockmw.Do(ctx, l, "k", lockmw.Flight{Policy: p}, func(ctx context.Context) (int, error) { return 0, held(ctx) })
			return err
		}, false},
		{`"maxHold": "2h"`, lockmw.Policy{MaxHold: time.Hour}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, _, err := lockmw.Do(ctx, l, "k", lockmw.Flight{Policy: p}, func(ctx context.Context) (int, error) { return 0, held(ctx) })
			return err
		}, true},
		{`"off": true`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, err := l.Once(ctx, "k", p, held)
			return err
		}, false},
		{`"wait": "none"`, lockmw.Policy{Wait: time.Second, AsyncRelease: true}, nil, false},
		{`"wait": "1s"`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, err := l.Once(ctx, "k", p, noop)
			return err
		}, false},
		{`"wait": "none"`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, err := l.Once(ctx, "k", p, noop)
			return err
		}, true},
		{`"wait": "1s"`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			return l.Leader("k", p).Run(ctx, noop)
		}, false},
		{`"wait": "none"`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			return l.Leader("k", p).Run(ctx, noop)
		}, false},
		{`"ttl": "1h"`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			return l.Leader("k", p).Run(ctx, noop)
		}, true},
		{`"off": true`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			return l.Leader("k", p).Run(ctx, held)
		}, false},
		{`"off": true`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, _, err := lockmw.Do(ctx, l, "k", lockmw.Flight{Policy: p}, func(ctx context.Context) (int, error) { return 0, held(ctx) })
			return err
		}, false},
		{`"shadow": true`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, _, err := lockmw.Do(ctx, l, "k", lockmw.Flight{Policy: p}, func(ctx context.Context) (int, error) { return 0, held(ctx) })
			return err
		}, false},
		{`"shadow": true`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			return l.Leader("k", p).Run(ctx, held)
		}, false},
		{`"shadow": true`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, err := l.Once(ctx, "k", p, held)
			return err
		}, false},
		{`"wait": "1s"`, lockmw.Policy{}, func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
			_, _, err := lockmw.Do(ctx, l, "k", lockmw.Flight{Policy: p}, func(ctx context.Context) (int, error) { return 0, held(ctx) })
			return err
		}, true},
	} {
		t.Run(test.setting, func(t *testing.T) {
			inFile(t, `{"shop/pay": {`+test.setting+`}}`, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
				test.policy.Name = "pay"
				use := test.use
				if use == nil {
					use = func(ctx context.Context, l *lockmw.Locker, p lockmw.Policy) error {
						return l.WithLock(ctx, fmt.Sprint("k", rand.Uint64()), p, held) // another key each time: MinHold keeps one taken
					}
				}
				for range 2 {
					if err := use(t.Context(), l, test.policy); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				s := settingsOf(l)
				if len(s) != 1 || (len(s[0].Names) == 1) != test.fits || (len(s[0].Refused) == 1) == test.fits {
					t.Errorf("%+v, fits: want %v", s, test.fits)
				}
				if lines := log.Count("does not fit", "name=pay"); (lines == 1) == test.fits {
					t.Errorf("%d lines:\n%s", lines, log.Text())
				}
				if got := l.Stats().Settings.Refused; (got == 1) == test.fits {
					t.Errorf("%d are refused", got)
				}
			}, lockmw.AllowOff())
		})
	}
}

// held returns an error unless ctx is that of a lease that has its lock.
func held(ctx context.Context) error {
	if lease, ok := lockmw.FromContext(ctx); !ok || lease.ValidUntil().IsZero() {
		return errors.New("there is no lock")
	}
	return nil
}

func TestAFileThatCannotBeReadChangesNothingAndIsToldOnce(t *testing.T) {
	inFile(t, `{"shop/pay": {"wait": "3s", "for": "1m"}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"})
		for i, text := range []string{`{"shop/pay": {"wait"`, `{"shop/pay": {"wait": "soon"}}`, ``} {
			d.write(text)
			looked()
			looked()
			if got := changeOf(l, "pay"); got != "wait=3s" || log.Count("level=ERROR", "cannot be read") != i+1 {
				t.Errorf("%q: it has %q, and the log\n%s", text, got, log.Text())
			}
		}
		if s := l.Stats().Settings; s.Refused != 1 || s.Ages["file"] < 10*time.Second {
			t.Errorf("%+v", s)
		}
		if err := os.Remove(d.file()); err != nil {
			t.Fatal(err)
		}
		looked()
		looked()
		if got := changeOf(l, "pay"); got != "wait=3s" || log.Count("level=WARN", "settings cannot be read") != 1 {
			t.Errorf("without the file: it has %q, and the log\n%s", got, log.Text())
		}
		time.Sleep(time.Minute) // the end is counted all the same
		if got := changeOf(l, "pay"); got != "" {
			t.Errorf("behind its end it has %q", got)
		}
		d.write(`{"shop/pay": {"ttl": "1m"}}`)
		if err := os.Symlink("..data/settings.json", d.file()); err != nil {
			t.Fatal(err)
		}
		looked()
		if got := changeOf(l, "pay"); got != "ttl=1m0s" || l.Stats().Settings.Refused != 0 {
			t.Errorf("with the file again it has %q", got)
		}
	})
}

func TestASettingEndsInTime(t *testing.T) {
	inFile(t, `{"shop/pay": {"wait": "3s", "for": "90s"}, "shop/*": {"wait": "4s"}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, _ *testenv.Journal, e *events) {
		mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"})
		time.Sleep(60 * time.Second)
		d.write(`{"shop/pay": {"wait": "3s", "for": "90s"}}`) // that another entry changes does not prolong it
		time.Sleep(30*time.Second - time.Millisecond)
		if got := changeOf(l, "pay"); got != "wait=3s" {
			t.Errorf("just before its end it has %q", got)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := changeOf(l, "pay"); got != "" || len(e.of(lockmw.EventSettingEnded)) != 2 {
			t.Errorf("just behind its end it has %q", got)
		}
	})
}

func TestOffRunsWorkWithoutItsLockAndIsShouted(t *testing.T) {
	inFile(t, `{"shop/pay": {"off": true, "until": "2000-01-01T00:02:30Z", "author": "ada", "reason": "INC-42"}}`, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, log *testenv.Journal, e *events) {
		pay := lockmw.Policy{Name: "pay", Prefix: "pay:", MaxHold: time.Minute}
		other := mustAcquire(t, l, "pay:k", lockmw.Policy{Name: "mail"})
		for range 2 {
			lease := mustAcquire(t, l, "k", pay)
			if lease.Fence() != 0 || !lease.ValidUntil().IsZero() || !lease.Valid() || !strings.Contains(lease.String(), "switched off") {
				t.Errorf("it has a lock: %v", lease)
			}
		}
		_, several, err := l.AcquireAll(t.Context(), []string{"k", "l"}, pay)
		if err != nil || several.FenceOf("pay:k") != 0 || !several.Valid() {
			t.Errorf("several keys: %v, %v", several, err)
		}
		mustRelease(t, several)
		if n := len(e.of(lockmw.EventSwitchedOff)); n != 4 {
			t.Errorf("%d calls are told as switched off, want 4", n)
		}
		if err := held(other.Context()); err != nil {
			t.Error(err)
		}
		if s := l.Stats(); s.Names["pay"].Held != 0 || !slices.Equal(s.Settings.Off, []string{"pay"}) || s.Settings.Changed["off"] != 1 {
			t.Errorf("%+v, %+v", s.Names, s.Settings)
		}
		time.Sleep(121 * time.Second)
		synctest.Wait()
		if n := log.Count("level=ERROR", "OFF", "author=ada", "because=INC-42"); n != 3 { // at its begin, and after one minute and two
			t.Errorf("%d lines:\n%s", n, log.Text())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := log.Count("OFF"); n != 3 || len(l.Stats().Settings.Off) != 0 {
			t.Errorf("behind its end: %d lines:\n%s", n, log.Text())
		}
		if _, _, err := l.Acquire(t.Context(), "k", pay); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("behind its end: %v", err)
		}
	}, lockmw.AllowOff())
}

func TestASettingTriesALockAndEndsATrial(t *testing.T) {
	tried := lockmw.Policy{Name: "tried", Shadow: true}
	text := `{"shop/pay": {"shadow": true}, "shop/tried": {"shadow": false}}`
	shadow := func(l *lockmw.Locker, key string, p lockmw.Policy) bool {
		lease := mustAcquire(t, l, key, p)
		defer mustRelease(t, lease)
		return lease.Shadow()
	}
	inFile(t, text, func(t *testing.T, d *settingsDir, l *lockmw.Locker, _ *testenv.Journal, _ *events) {
		if !shadow(l, "a", lockmw.Policy{Name: "pay"}) || shadow(l, "b", tried) {
			t.Errorf("%+v", settingsOf(l))
		}
		d.write(`{}`)
		looked()
		if shadow(l, "a", lockmw.Policy{Name: "pay"}) || !shadow(l, "b", tried) {
			t.Error("without settings it is not as the program has it")
		}
	}, lockmw.AllowOff())
	inFile(t, text, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		if shadow(l, "a", lockmw.Policy{Name: "pay"}) || shadow(l, "b", tried) || log.Count("shadow=true", "AllowOff") != 1 {
			t.Errorf("a program that does not allow it: %+v\n%s", settingsOf(l), log.Text())
		}
	})
}

func TestOffWorksWhereRedisIsAway(t *testing.T) {
	d := newSettingsDir(t, `{"shop/pay": {"off": true}}`)
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	l := testenv.Open(t, client, lockmw.WithService("shop"), lockmw.WithSettings(lockmw.SettingsFile(d.file())), lockmw.AllowOff())
	if err := l.WithLock(t.Context(), "k", lockmw.Policy{Name: "pay"}, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := l.WithLock(t.Context(), "k", lockmw.Policy{Name: "mail"}, held); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("one that is not off: %v", err)
	}
}

// What stood there before does not count any more all the same.
func TestOffWithoutAllowOffIsRefused(t *testing.T) {
	inFile(t, `{"shop/pay": {"wait": "3s"}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		if err := l.WithLock(t.Context(), "k", lockmw.Policy{Name: "pay"}, held); err != nil {
			t.Error(err)
		}
		d.write(`{"shop/pay": {"off": true}}`)
		looked()
		if err := l.WithLock(t.Context(), "k", lockmw.Policy{Name: "pay"}, held); err != nil {
			t.Error(err)
		}
		if got := changeOf(l, "pay"); got != "" || log.Count("AllowOff") != 1 || log.Count("OFF") != 0 {
			t.Errorf("it has %q, and the log\n%s", got, log.Text())
		}
	})
}

// fromRedis opens a Locker of the service shop whose settings come from a Redis.
func fromRedis(t *testing.T, c redis.UniversalClient, opts ...lockmw.Option) *lockmw.Locker {
	t.Helper()
	return testenv.Open(t, c, append([]lockmw.Option{lockmw.WithService("shop"), lockmw.WithSettings(lockmw.SettingsInRedis())}, opts...)...)
}

// put writes a setting as lockctl does, or takes it away.
func put(t *testing.T, l *lockmw.Locker, pattern, text string) {
	t.Helper()
	if _, _, err := seam.Set(context.Background(), l, pattern, nil, text); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsInRedisStayWhileItIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := redistest.InMemory(t), new(testenv.Journal)
		c := m.Client(t)
		l := fromRedis(t, c, log.Option())
		mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"})
		clock := time.Now().UnixMicro()
		put(t, l, "shop/pay", `{"wait":"3s"}`)
		put(t, l, "shop/mail", fmt.Sprintf(`{"wait":"4s","until":%d}`, clock+30_000_000))
		mustAcquire(t, l, "k2", lockmw.Policy{Name: "mail"})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if pay, mail := changeOf(l, "pay"), changeOf(l, "mail"); pay != "wait=3s" || mail != "wait=4s" {
			t.Fatalf("pay has %q, and mail %q:\n%s", pay, mail, log.Text())
		}
		m.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(time.Minute)
		synctest.Wait()
		if pay, mail := changeOf(l, "pay"), changeOf(l, "mail"); pay != "wait=3s" || mail != "" {
			t.Errorf("Redis is away: pay has %q, and mail, whose end has come, %q", pay, mail)
		}
		if log.Count("settings cannot be read") != 1 || l.Stats().Settings.Ages["redis"] < 50*time.Second {
			t.Errorf("%v old, the log:\n%s", l.Stats().Settings.Ages, log.Text())
		}
		m.SetError("")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if log.Count("settings can be read again") != 1 || changeOf(l, "pay") != "wait=3s" {
			t.Errorf("the log:\n%s", log.Text())
		}
	})
}

func TestWhatCannotBeReadInRedisChangesNothing(t *testing.T) {
	s := redistest.Real(t)
	log := new(testenv.Journal)
	l := fromRedis(t, s.Client(t), log.Option())
	mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"})
	put(t, l, "shop/pay", `{"wait":"3s"}`)
	await.Until(t, "it applies", func() bool { return changeOf(l, "pay") == "wait=3s" })
	for i, text := range []string{`{"wait":"0s"}`, `{"off":true}`, `nonsense`, `{"prefix":"x"}`} {
		put(t, l, "shop/pay", text)
		await.Until(t, "it is told", func() bool { return log.Count("changes nothing") == i+1 })
		marker := fmt.Sprint("shop/marker", i)
		put(t, l, marker, `{"wait":"1s"}`)
		await.Until(t, "it is read again", func() bool {
			return slices.ContainsFunc(settingsOf(l), func(s lockmw.Setting) bool { return s.Pattern == marker })
		})
		if got := changeOf(l, "pay"); got != "wait=3s" || log.Count("changes nothing") != i+1 {
			t.Errorf("%s: it has %q, and is told %d times", text, got, log.Count("changes nothing")-i)
		}
	}
	put(t, l, "other/pay", `nonsense`)
	put(t, l, "nonsense", `nonsense`)
	put(t, l, "shop/pay", "")
	await.Until(t, "it ends", func() bool { return changeOf(l, "pay") == "" })
	if n := log.Count("changes nothing"); n != 4 {
		t.Errorf("%d lines:\n%s", n, log.Text())
	}
}

func TestAServiceWithoutTheRightToReadSettingsWorks(t *testing.T) {
	s := redistest.Real(t)
	admin := s.Client(t)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "locks", "on", ">secret", "~lock:*", "&lock:grants:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	log := new(testenv.Journal)
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "locks", Password: "secret"})
	t.Cleanup(func() { _ = c.Close() })
	l := fromRedis(t, c, log.Option())
	await.Until(t, "it is told", func() bool { return log.Count("settings cannot be read", "docs/redis.md") == 1 })
	if err := l.WithLock(t.Context(), "k", lockmw.Policy{Wait: 10 * time.Second}, held); err != nil {
		t.Error(err)
	}
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "locks", "%R~lockmw:settings:lock").Err(); err != nil {
		t.Fatal(err)
	}
	put(t, fromRedis(t, admin), "shop/pay", `{"wait":"3s"}`)
	await.Until(t, "it applies", func() bool { return len(settingsOf(l)) == 1 })
}

func TestASettingOfTheFileCountsBeforeThatOfRedis(t *testing.T) {
	s := redistest.Real(t)
	d := newSettingsDir(t, `{"shop/*": {"off": true}}`)
	l := fromRedis(t, s.Client(t), lockmw.WithSettings(lockmw.SettingsFile(d.file())), lockmw.AllowOff())
	put(t, l, "shop/pay", `{"wait":"3s"}`)
	await.Until(t, "both are read", func() bool { return len(settingsOf(l)) == 2 })
	mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"})
	if got := changeOf(l, "pay"); got != "off=true" {
		t.Errorf("it has %q", got)
	}
}

func TestWhatIsWrongWithSettingsIsAnErrorOfNew(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	for _, opts := range [][]lockmw.Option{
		{lockmw.WithSettings(lockmw.SettingsSource{})},
		{lockmw.WithSettings(lockmw.SettingsFile(""))},
		{lockmw.WithSettings(lockmw.SettingsInRedis()), lockmw.WithSettings(lockmw.SettingsInRedis())},
		{lockmw.WithService("")}, {lockmw.WithService("a/b")}, {lockmw.WithService("a*")}, {lockmw.WithService("a b")},
	} {
		if l, err := lockmw.New(c, opts...); err == nil {
			_ = l.Close(over())
			t.Error("New returns no error")
		}
	}
	clients := []redis.UniversalClient{redistest.Embedded(t).Client(t), redistest.Embedded(t).Client(t), c}
	if l, err := lockmw.NewQuorum(clients, lockmw.WithSettings(lockmw.SettingsInRedis())); err == nil || !strings.Contains(err.Error(), "SettingsFile") {
		t.Errorf("NewQuorum returns %v, %v", l, err)
	}
	d := newSettingsDir(t, `{"*/*": {"wait": "3s"}}`)
	l, err := lockmw.NewQuorum(clients, lockmw.WithSettings(lockmw.SettingsFile(d.file())))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(over())
	if s := settingsOf(l); len(s) != 1 || s[0].Pattern != "*/*" {
		t.Errorf("a quorum has %+v", s)
	}
}

// waitOf is for how long calls for a name wait at present, as the Locker says, and what says so.
func waitOf(l *lockmw.Locker, name string, program time.Duration) (wait time.Duration, by lockmw.Setting) {
	for _, s := range settingsOf(l) {
		if !slices.Contains(s.Names, name) {
			continue
		}
		for word := range strings.FieldsSeq(s.Change) {
			if value, ok := strings.CutPrefix(word, "wait="); ok {
				d, _ := time.ParseDuration(value) // none is zero
				return d, s
			}
		}
		return program, s
	}
	return program, lockmw.Setting{}
}

// Random changes under load: whatever the settings are, two never have the lock, and each refusal is one that the policy explains
// with which its call began.
func TestRandomSettingsUnderLoadBreakNoExclusion(t *testing.T) {
	slow.Test(t)
	s := redistest.Real(t)
	lockers := []*lockmw.Locker{fromRedis(t, s.Client(t)), fromRedis(t, s.Client(t)), fromRedis(t, s.Client(t))}
	program := lockmw.Policy{Name: "pay", Wait: 200 * time.Millisecond, TTL: 10 * time.Second}
	// Of the waits that are set: within such a one, nothing is set and taken away again, since Redis is read every 200 ms at most.
	const least, most = 20 * time.Millisecond, 190 * time.Millisecond
	var inside, overlaps, granted, refused, judged, unexplained, silent, changes atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	began := time.Now()
	var running sync.WaitGroup
	for i := range 24 {
		l := lockers[i%len(lockers)]
		running.Go(func() {
			for ctx.Err() == nil {
				wait, by := waitOf(l, "pay", program.Wait)
				asked := time.Now()
				err := l.WithLock(context.Background(), "k", program, func(context.Context) error {
					if inside.Add(1) > 1 {
						overlaps.Add(1)
					}
					time.Sleep(time.Duration(rand.IntN(2)) * time.Millisecond)
					inside.Add(-1)
					return nil
				})
				waited := time.Since(asked)
				_, after := waitOf(l, "pay", program.Wait)
				certain := by.Change == after.Change && by.Since.Equal(after.Since) && by.Pattern == after.Pattern
				switch {
				case err == nil:
					granted.Add(1)
				case errors.Is(err, lockmw.ErrUnavailable): // a busy server is no matter of settings
					silent.Add(1)
				case !errors.Is(err, lockmw.ErrNotAcquired):
					t.Error(err)
				case certain && (waited < wait || waited > wait+time.Second && !stoodStill(asked)):
					unexplained.Add(1)
					t.Errorf("refused after %v, with %q, which is to wait for %v: %v", waited, by.Change, wait, err)
				default:
					refused.Add(1)
					if certain {
						judged.Add(1)
					}
				}
			}
		})
	}
	texts := []func() string{
		func() string { return "" },
		func() string { return `{"wait":"none"}` },
		func() string {
			return fmt.Sprintf(`{"wait":"%v"}`, least+time.Duration(rand.Int64N(int64(most-least))))
		},
		func() string { return fmt.Sprintf(`{"ttl":"%ds"}`, rand.IntN(60)+1) },
		func() string { return fmt.Sprintf(`{"maxHold":"%ds","wait":"%v"}`, rand.IntN(60)+1, most) },
		func() string { return `{"wait":"0s"}` },
		func() string { return `{"off":true}` },
		func() string { return `{"mode":"shared"}` },
	}
	patterns := []string{"shop/pay", "shop/*", "*/pay", "*/*", "other/pay"}
	for i := range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = seam.Set(ctx, lockers[i%len(lockers)], patterns[rand.IntN(len(patterns))], nil, texts[rand.IntN(len(texts))]())
				changes.Add(1)
				time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
			}
		})
	}
	running.Wait()
	t.Logf("in %v: %d changes, %d granted, %d refused, of which %d with a policy that was certain, %d without an answer, %d overlaps", time.Since(began).Round(time.Second),
		changes.Load(), granted.Load(), refused.Load(), judged.Load(), silent.Load(), overlaps.Load())
	if overlaps.Load() > 0 && !stoodStill(began) || unexplained.Load() > 0 || granted.Load() == 0 || judged.Load() == 0 || silent.Load() > granted.Load()/10 {
		t.Errorf("%d overlaps, %d refusals that no policy explains", overlaps.Load(), unexplained.Load())
	}
}

// A policy that settings know is found without an allocation.
func TestSettingsCostAnAcquireNoAllocation(t *testing.T) {
	d := newSettingsDir(t, `{"*/pay": {"wait": "3s", "ttl": "1m"}, "shop/*": {"maxHold": "1m"}}`)
	l := testenv.Open(t, redistest.Embedded(t).Client(t), lockmw.WithSettings(lockmw.SettingsFile(d.file())))
	for _, p := range []lockmw.Policy{{Name: "pay"}, {Prefix: "order:"}} {
		if n := testing.AllocsPerRun(100, func() { lockmw.Adjust(l, p) }); n != 0 {
			t.Errorf("%+v: %v allocations", p, n)
		}
	}
	if got := lockmw.Adjust(l, lockmw.Policy{Name: "pay"}); got.Wait != 3*time.Second || got.TTL != time.Minute {
		t.Errorf("it is %+v", got)
	}
}

// What settings take of an Acquire is the time behind that of the first case, in which a policy is passed on and back.
func BenchmarkSettings(b *testing.B) {
	p := lockmw.Policy{Name: "pay", Prefix: "pay:", Wait: time.Second}
	b.Run("no look", func(b *testing.B) {
		for b.Loop() {
			lockmw.Unadjusted(nil, p)
		}
	})
	for name, opts := range map[string][]lockmw.Option{
		"without":  nil,
		"none set": {lockmw.WithSettings(lockmw.SettingsFile(newSettingsDir(b, `{}`).file()))},
		"one set":  {lockmw.WithSettings(lockmw.SettingsFile(newSettingsDir(b, `{"*/pay": {"wait": "3s", "ttl": "1m"}}`).file()))},
	} {
		b.Run(name, func(b *testing.B) {
			l := testenv.Open(b, redistest.Embedded(b).Client(b), opts...)
			for i := range 20 { // others, as a service has
				lockmw.Adjust(l, lockmw.Policy{Name: fmt.Sprint("name", i)})
			}
			b.ReportAllocs()
			for b.Loop() {
				lockmw.Adjust(l, p)
			}
		})
	}
}

// Work that runs without its lock, because a setting says off, takes no other call's lock away: not that of a policy that is not off, not when off is over,
// and not that of Once.
func TestWorkThatIsOffHoldsNothingForOthers(t *testing.T) {
	inFile(t, `{"shop/admin":{"off":true}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, _ *testenv.Journal, _ *events) {
		pay := lockmw.Policy{Name: "pay", Reentrant: true}
		ctx, off, err := l.Acquire(t.Context(), "42", lockmw.Policy{Name: "admin"})
		if err != nil || off.Fence() != 0 {
			t.Fatalf("Acquire = %v, %v, want a lease without a lock", off, err)
		}
		held := mustAcquire(t, l, "42", lockmw.Policy{Name: "holder"})
		if _, in, err := l.Acquire(ctx, "42", pay); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("a policy that is not off: %v, %v, though another has its lock", in, err)
		}
		once := lockmw.Policy{Name: "pay", Reentrant: true}
		if ran, err := l.Once(ctx, "42", once, func(context.Context) error { return nil }); ran {
			t.Errorf("Once = %v, %v, though another has the lock", ran, err)
		}
		if inner, in, err := l.Acquire(ctx, "42", lockmw.Policy{Name: "admin"}); err != nil || in.Fence() != 0 {
			t.Errorf("one that is off as well: %v", err)
		} else {
			_ = in.Release(inner)
		}
		d.write(`{}`)
		looked()
		if _, in, err := l.Acquire(ctx, "42", lockmw.Policy{Name: "admin", Reentrant: true}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("when off is over: %v, %v", in, err)
		}
		mustRelease(t, held)
		if _, in, err := l.Acquire(ctx, "42", pay); err != nil || in.Fence() == 0 {
			t.Errorf("the lock is free: %v", err)
		} else {
			mustRelease(t, in)
		}
		mustRelease(t, off)
	}, lockmw.AllowOff())
}
