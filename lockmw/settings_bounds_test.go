package lockmw_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Work that does not heed its context goes on when its MaxHold is over, and the lock comes free: so a setting may only lower it where the
// program allows work beside others.
func TestALowerMaxHoldNeedsAllowOff(t *testing.T) {
	inFile(t, `{"shop/*": {"maxHold": "2s"}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		mustAcquire(t, l, "a", lockmw.Policy{Name: "none"})
		mustAcquire(t, l, "b", lockmw.Policy{Name: "lower", MaxHold: time.Minute})
		mustAcquire(t, l, "c", lockmw.Policy{Name: "higher", MaxHold: time.Second})
		synctest.Wait()
		if changeOf(l, "none") != "" || changeOf(l, "lower") != "" || changeOf(l, "higher") != "maxHold=2s" || log.Count("does not fit", "AllowOff") != 2 {
			t.Errorf("%+v\n%s", settingsOf(l), log.Text())
		}
		d.write(`{"shop/none": {"maxHold": "3s"}}`)
		looked()
		if log.Count("fits none of the policies", "shop/none") != 1 || log.Count("applies to none", "shop/none") != 0 {
			t.Errorf("the log:\n%s", log.Text())
		}
	})
}

// The log says that a setting applies only where it does, and never OFF of work that has its lock.
func TestASettingForNobodyIsToldAsSuch(t *testing.T) {
	inFile(t, `{"shop/pya": {"off": true}, "shop/mail": {"wait": "3s"}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		mustAcquire(t, l, "a", lockmw.Policy{Name: "pay"})
		mustAcquire(t, l, "b", lockmw.Policy{Name: "mail"})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if log.Count("OFF") != 0 || log.Count("applies to none", "shop/pya") != 1 || log.Count("applies from now on") != 0 {
			t.Errorf("the log:\n%s", log.Text())
		}
		d.write(`{"shop/pay": {"off": true}, "shop/mail": {"wait": "4s"}}`)
		looked()
		if log.Count("OFF", "names=[pay]") != 1 || log.Count("applies from now on", "names=[mail]") != 1 {
			t.Errorf("the log:\n%s", log.Text())
		}
		d.write(`{"shop/pay": {"off"`)
		looked()
		if log.Count("cannot be read", "still_off=[shop/pay]") != 1 {
			t.Errorf("a file that is broken: the log does not say what is still off:\n%s", log.Text())
		}
	}, lockmw.AllowOff())
}

// A setting is told as off where work runs without its lock by it. It is not for a misspelt name, for one that was not used yet, for work that ignores
// off, or where another field does not fit.
func TestOffIsToldOfWorkThatRunsWithoutItsLockAlone(t *testing.T) {
	const text = `{"shop/pay": {"off": true}, "shop/pya": {"off": true}, "shop/report": {"off": true}, "shop/mail": {"off": true, "ttl": "4s"}, "shop/late": {"off": true}}`
	inFile(t, text, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, _ *testenv.Journal, _ *events) {
		off := func() (patterns []string) {
			for _, s := range settingsOf(l) {
				if s.Off {
					patterns = append(patterns, s.Pattern)
				}
			}
			return patterns
		}
		if got := off(); got != nil {
			t.Errorf("before the first call, %q are told as off", got)
		}
		mustRelease(t, mustAcquire(t, l, "a", lockmw.Policy{Name: "pay"}))
		mustRelease(t, mustAcquire(t, l, "b", lockmw.Policy{Name: "mail"}))
		if _, _, err := lockmw.Do(t.Context(), l, "c", lockmw.Flight{Policy: lockmw.Policy{Name: "report"}}, func(context.Context) (int, error) { return 0, nil }); err != nil {
			t.Fatal(err)
		}
		if got := off(); !slices.Equal(got, []string{"shop/pay"}) || !slices.Equal(l.Stats().Settings.Off, []string{"pay"}) {
			t.Errorf("%q are told as off, and Stats have %q", got, l.Stats().Settings.Off)
		}
		mustRelease(t, mustAcquire(t, l, "d", lockmw.Policy{Name: "late"}))
		if got := off(); !slices.Equal(got, []string{"shop/late", "shop/pay"}) {
			t.Errorf("with the first call of another name, %q are told as off", got)
		}
	}, lockmw.AllowOff())
}

// A name whose first call comes when off stands there already is shouted at once, and not a minute later.
func TestOffIsShoutedWithTheFirstCall(t *testing.T) {
	inFile(t, `{"shop/pay": {"off": true}}`, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		time.Sleep(10 * time.Second)
		mustAcquire(t, l, "a", lockmw.Policy{Name: "pay"})
		synctest.Wait()
		if log.Count("OFF", "names=[pay]") != 1 {
			t.Errorf("the log:\n%s", log.Text())
		}
		for i := range 40 { // more policies of the name than are remembered
			mustAcquire(t, l, "b", lockmw.Policy{Name: "pay", Wait: time.Duration(i+1) * time.Second})
			synctest.Wait()
		}
		if n := log.Count("OFF"); n != 1 {
			t.Errorf("%d lines for calls that come later", n)
		}
	}, lockmw.AllowOff())
}

// A trial that a setting has begun is over with it, also in Stats.
func TestATrialThatIsOverIsNotToldAnyMore(t *testing.T) {
	inFile(t, `{"shop/pay": {"shadow": true}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, _ *testenv.Journal, _ *events) {
		mustRelease(t, mustAcquire(t, l, "a", lockmw.Policy{Name: "pay"}))
		if !l.Stats().Names["pay"].Shadow {
			t.Fatal("it is not in shadow")
		}
		d.write(`{}`)
		looked()
		if l.Stats().Names["pay"].Shadow {
			t.Error("it is told to be in shadow though the trial is over")
		}
	}, lockmw.AllowOff())
}

// What lets work run without its lock ends in time also where the process was stopped meanwhile, and nobody has put another table in place.
func TestOffEndsWhereTheProcessWasStopped(t *testing.T) {
	d := newSettingsDir(t, fmt.Sprintf(`{"shop/pay": {"off": true, "until": %q}}`, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339Nano)))
	l := testenv.Open(t, redistest.Embedded(t).Client(t), lockmw.WithService("shop"), lockmw.WithSettings(lockmw.SettingsFile(d.file())), lockmw.AllowOff())
	pay := lockmw.Policy{Name: "pay"}
	if mustAcquire(t, l, "a", pay).Fence() != 0 {
		t.Fatal("it is not off")
	}
	ends := settingsOf(l)[0].Ends
	free := lockmw.HoldSettings(l)
	defer free()
	time.Sleep(time.Until(ends)) // what is tested is that time passes and nothing else happens
	if mustAcquire(t, l, "b", pay).Fence() == 0 {
		t.Error("behind its end it is off")
	}
}

// However many settings cannot be used, or begin at the same time, the log and the list have few of them.
func TestALotOfSettingsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := redistest.InMemory(t).Client(t), new(testenv.Journal)
		l := fromRedis(t, c, log.Option())
		all := make([]any, 0, 4000)
		for i := range 1000 {
			all = append(all, fmt.Sprintf("shop/broken%d", i), "{"+strings.Repeat("x", 1000), fmt.Sprintf("shop/whole%d", i), `{"wait":"3s"}`)
		}
		if err := c.HSet(t.Context(), "lockmw:settings:lock", all...).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := log.Count("setting"); n > 50 {
			t.Errorf("%d lines", n)
		}
		if n := len(log.Text()); n > 50<<10 {
			t.Errorf("%d bytes of log", n)
		}
		if s := l.Stats().Settings; s.Refused != 1000 {
			t.Errorf("%d cannot be used, want 1000", s.Refused)
		}
		if n := len(settingsOf(l)); n > 1000+21 {
			t.Errorf("%d are listed", n)
		}
	})
}

// Of more settings than a Locker takes, those count that are the most specific, each time; those that are over do not count in.
func TestOfTooManySettingsTheMostSpecificCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := redistest.InMemory(t).Client(t)
		l := fromRedis(t, c)
		all := []any{"shop/pay", `{"wait":"3s"}`, "shop/*", `{"wait":"2s"}`}
		for i := range 2000 {
			all = append(all, fmt.Sprintf("shop/over%d", i), `{"wait":"3s","until":1}`)
		}
		for i := range 1100 {
			all = append(all, fmt.Sprintf("shop/p%04d*", i), `{"wait":"1s"}`)
		}
		if err := c.HSet(t.Context(), "lockmw:settings:lock", all...).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if got := lockmw.Adjust(l, lockmw.Policy{Name: "pay"}); got.Wait != 3*time.Second {
			t.Errorf("it is %+v", got)
		}
	})
}

// Work that runs without its lock is seen in the log, in Stats and in the list, also where the process has used more Names before than are
// remembered.
func TestOffIsSeenHoweverManyNamesCameBefore(t *testing.T) {
	inFile(t, `{}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		for i := range 1200 {
			lockmw.Adjust(l, lockmw.Policy{Name: fmt.Sprint("name", i)})
		}
		d.write(`{"shop/pay": {"off": true}}`)
		looked()
		if lease := mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"}); lease.Fence() != 0 {
			t.Fatal("it is not off")
		}
		synctest.Wait()
		if log.Count("OFF", "names=[pay]") != 1 || changeOf(l, "pay") != "off=true" {
			t.Errorf("%+v\n%s", settingsOf(l), log.Text())
		}
		if s := l.Stats().Settings; !slices.Equal(s.Off, []string{"pay"}) || s.MoreOff || s.Changed["off"] != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := log.Count("OFF", "names=[pay]"); n != 2 {
			t.Errorf("%d lines after a minute", n)
		}
		d.write(`{}`)
		looked()
		if s := l.Stats().Settings; len(s.Off) != 0 {
			t.Errorf("when it is over, %q are off", s.Off)
		}
	}, lockmw.AllowOff())
}

// The same where the Name has more policies than are remembered, and the first of them have their lock.
func TestOffIsSeenHoweverManyPoliciesItsNameHas(t *testing.T) {
	inFile(t, `{"shop/pay": {"off": true, "ttl": "4s"}}`, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		for i := range 20 { // a TTL of 30 s cannot be lowered so far
			lockmw.Adjust(l, lockmw.Policy{Name: "pay", Wait: time.Duration(i+1) * time.Second})
		}
		if lease := mustAcquire(t, l, "k", lockmw.Policy{Name: "pay", TTL: time.Second}); lease.Fence() != 0 {
			t.Fatal("it is not off")
		}
		synctest.Wait()
		if off := l.Stats().Settings.Off; !slices.Equal(off, []string{"pay"}) || log.Count("OFF", "names=[pay]") != 1 || changeOf(l, "pay") == "" {
			t.Errorf("%q are off\n%s", off, log.Text())
		}
	}, lockmw.AllowOff())
}

// Of more Names that are off than are remembered it is told that there are more, also of a setting of whose Names none is remembered.
func TestMoreNamesThatAreOffThanAreRememberedAreTold(t *testing.T) {
	inFile(t, `{"shop/a*": {"off": true}, "shop/b*": {"off": true}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		for i := range 2100 {
			lockmw.Adjust(l, lockmw.Policy{Name: fmt.Sprint("a", i)})
		}
		for range 3 {
			lockmw.Adjust(l, lockmw.Policy{Name: "bank"})
		}
		s := l.Stats().Settings
		if len(s.Off) != 2000 || !s.MoreOff {
			t.Errorf("%d are off, more: %v", len(s.Off), s.MoreOff)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, parts := range [][]string{{"OFF", "setting=shop/a*", "… and more"}, {"OFF", "setting=shop/b*", "… and more"}} {
			if log.Count(parts...) != 1 {
				t.Errorf("no line has %q:\n%s", parts, log.Text())
			}
		}
		for _, s := range settingsOf(l) {
			if !s.MoreNames || !s.Off {
				t.Errorf("%s has no more names, or is not off: %v", s.Pattern, s.Off)
			}
		}
		d.write(`{"shop/c*": {"off": true}}`)
		looked()
		lockmw.Adjust(l, lockmw.Policy{Name: "cash"})
		if s := l.Stats().Settings; !slices.Equal(s.Off, []string{"cash"}) || s.MoreOff {
			t.Errorf("when it is over, %+v", s)
		}
	}, lockmw.AllowOff())
}

// However many Names or settings are off, a minute of the log has few lines, which say that there are more.
func TestALotThatIsOffDoesNotFloodTheLog(t *testing.T) {
	var one, all []string
	for i := range 500 {
		one = append(one, fmt.Sprintf("%q: {%q: true}", fmt.Sprint("shop/p", i), "off"))
	}
	all = append(all, `"shop/*": {"off": true}`)
	for _, tc := range []struct {
		settings []string
		says     string
	}{{one, "number=480"}, {all, "… and 480 more"}} {
		inFile(t, "{"+strings.Join(tc.settings, ",")+"}", func(t *testing.T, _ *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
			for i := range 500 {
				lockmw.Adjust(l, lockmw.Policy{Name: fmt.Sprint("p", i)})
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := log.Count("OFF"); n > 20+20+1 || log.Count("OFF", tc.says) != 1 {
				t.Errorf("%d lines, %d of which say %q", n, log.Count("OFF", tc.says), tc.says)
			}
			if n := len(log.Text()); n > 50<<10 {
				t.Errorf("%d bytes of log", n)
			}
			if n := len(l.Stats().Settings.Off); n != 500 {
				t.Errorf("%d are off", n)
			}
		}, lockmw.AllowOff())
	}
}

// A right that is missing is told also where Redis could not be reached before; and what runs without its lock meanwhile.
func TestAMissingRightIsToldBehindAnotherFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := redistest.InMemory(t), new(testenv.Journal)
		l := fromRedis(t, m.Client(t), log.Option(), lockmw.AllowOff())
		put(t, l, "shop/pay", `{"shadow":"true"}`)
		time.Sleep(11 * time.Second)
		const loading, noRight = "LOADING Redis is loading the dataset in memory", "NOPERM User locks has no permissions to run the 'hgetall' command"
		for i, text := range []string{loading, noRight, loading, noRight} {
			m.SetError(text)
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if told, right := log.Count("settings cannot be read", "still_shadow=[shop/pay]"), log.Count("settings cannot be read", "docs/redis.md"); told != min(i+1, 2) || right != min(i, 1) {
				t.Errorf("%d: told %d times, of the right %d:\n%s", i, told, right, log.Text())
			}
		}
		m.SetError("")
		time.Sleep(15 * time.Second)
		m.SetError(noRight)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if log.Count("can be read again") != 1 || log.Count("settings cannot be read", "docs/redis.md") != 2 {
			t.Errorf("the log:\n%s", log.Text())
		}
	})
}

// What is left of a setting is what Redis's clock says at each reading, and not only at the first.
func TestTheEndInRedisIsThatOfItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, e := redistest.InMemory(t), new(events)
		l := fromRedis(t, m.Client(t), e.option())
		lockmw.Adjust(l, lockmw.Policy{Name: "pay"})
		put(t, l, "shop/pay", fmt.Sprintf(`{"wait":"3s","until":%d}`, time.Now().Add(5*time.Minute).UnixMicro()))
		reads := func(want string, began int) {
			t.Helper()
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if got, n := changeOf(l, "pay"), len(e.of(lockmw.EventSettingBegan)); got != want || n != began {
				t.Errorf("it has %q, and has begun %d times, want %q and %d", got, n, want, began)
			}
		}
		reads("wait=3s", 1)
		reads("wait=3s", 1) // both clocks say the same
		m.SetTime(time.Now().Add(time.Hour))
		reads("", 1)
		m.SetTime(time.Time{})
		reads("wait=3s", 2)
	})
}

// What is not allowed, be it for everybody, hides nothing that is set elsewhere: a trial that was ended stays ended.
func TestWhatIsNotAllowedHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSettingsDir(t, `{"*/*": {"off": true}, "shop/trial": {"shadow": "true"}}`)
		l := testenv.Open(t, redistest.InMemory(t).Client(t), lockmw.WithService("shop"), lockmw.WithSettings(lockmw.SettingsFile(d.file())), lockmw.WithSettings(lockmw.SettingsInRedis()))
		put(t, l, "shop/t*", `{"shadow":"false"}`)
		put(t, l, "shop/pay", `{"wait":"3s"}`)
		time.Sleep(11 * time.Second)
		if got := lockmw.Adjust(l, lockmw.Policy{Name: "trial", Shadow: true}); got.Shadow {
			t.Error("a trial goes on that was ended")
		}
		if got := lockmw.Adjust(l, lockmw.Policy{Name: "pay"}).Wait; got != 3*time.Second {
			t.Errorf("a call waits for %v", got)
		}
	})
}

// A trial of the program that a setting ends is over also for those who look: metrics, board and console.
func TestATrialOfTheProgramThatASettingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fromRedis(t, redistest.InMemory(t).Client(t))
		trial := lockmw.Policy{Name: "trial", Shadow: true}
		call := func() {
			_, lease, err := l.Acquire(t.Context(), "k", trial)
			if err != nil {
				t.Fatal(err)
			}
			mustRelease(t, lease)
		}
		call()
		time.Sleep(time.Minute)
		if !l.Stats().Names["trial"].Shadow {
			t.Error("it is not seen")
		}
		put(t, l, "shop/trial", `{"shadow":"false"}`)
		time.Sleep(11 * time.Second)
		call()
		synctest.Wait()
		if l.Stats().Names["trial"].Shadow {
			t.Error("it is over, and seen still")
		}
	})
}

// A process that was running when what the program does not allow was set, and one that starts later, have the same policy: the program's.
func TestWhatIsNotAllowedCountsForAllAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := redistest.InMemory(t).Client(t), new(testenv.Journal)
		pay := lockmw.Policy{Name: "pay", Wait: time.Second}
		running := fromRedis(t, c, log.Option())
		put(t, running, "shop/*", `{"wait":"4s"}`)
		put(t, running, "shop/pay", `{"wait":"3s"}`)
		time.Sleep(11 * time.Second)
		if got := lockmw.Adjust(running, pay).Wait; got != 3*time.Second {
			t.Fatalf("a call waits for %v", got)
		}
		put(t, running, "shop/pay", `{"shadow":"true","wait":"2s"}`)
		time.Sleep(11 * time.Second)
		started := fromRedis(t, c, log.Option())
		time.Sleep(11 * time.Second)
		synctest.Wait()
		for name, l := range map[string]*lockmw.Locker{"running": running, "started": started} {
			if got := lockmw.Adjust(l, pay); got.Wait != 4*time.Second || got.Shadow {
				t.Errorf("%s: the policy is %+v, want what is less specific", name, got)
			}
			if got := lockmw.Adjust(l, lockmw.Policy{Name: "mail"}).Wait; got != 4*time.Second {
				t.Errorf("%s: a call of another name waits for %v", name, got)
			}
			if s := settingsOf(l)[0]; s.Pattern != "shop/pay" || len(s.Names) > 0 || len(s.Refused) != 1 || !strings.Contains(s.Refused[0], "AllowOff") || l.Stats().Settings.Refused != 1 {
				t.Errorf("%s: it is told as %+v", name, s)
			}
		}
		if n := log.Count("level=WARN", "shop/pay", "AllowOff"); n != 2 {
			t.Errorf("%d lines, want one of each:\n%s", n, log.Text())
		}
	})
}
