package lockmw_test

import (
	"fmt"
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
	inFile(t, `{"shop/*": {"maxHold": "2s"}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *journal, _ *events) {
		mustAcquire(t, l, "a", lockmw.Policy{Name: "none"})
		mustAcquire(t, l, "b", lockmw.Policy{Name: "lower", MaxHold: time.Minute})
		mustAcquire(t, l, "c", lockmw.Policy{Name: "higher", MaxHold: time.Second})
		synctest.Wait()
		if changeOf(l, "none") != "" || changeOf(l, "lower") != "" || changeOf(l, "higher") != "maxHold=2s" || log.count("does not fit", "AllowOff") != 2 {
			t.Errorf("%+v\n%s", settingsOf(l), log.text.String())
		}
		d.write(`{"shop/none": {"maxHold": "3s"}}`)
		looked()
		if log.count("fits none of the policies", "shop/none") != 1 || log.count("applies to none", "shop/none") != 0 {
			t.Errorf("the log:\n%s", log.text.String())
		}
	})
}

// The log says that a setting applies only where it does, and never OFF of work that has its lock.
func TestASettingForNobodyIsToldAsSuch(t *testing.T) {
	inFile(t, `{"shop/pya": {"off": true}, "shop/mail": {"wait": "3s"}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, log *journal, _ *events) {
		mustAcquire(t, l, "a", lockmw.Policy{Name: "pay"})
		mustAcquire(t, l, "b", lockmw.Policy{Name: "mail"})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if log.count("OFF") != 0 || log.count("applies to none", "shop/pya") != 1 || log.count("applies from now on") != 0 {
			t.Errorf("the log:\n%s", log.text.String())
		}
		d.write(`{"shop/pay": {"off": true}, "shop/mail": {"wait": "4s"}}`)
		looked()
		if log.count("OFF", "names=[pay]") != 1 || log.count("applies from now on", "names=[mail]") != 1 {
			t.Errorf("the log:\n%s", log.text.String())
		}
		d.write(`{"shop/pay": {"off"`)
		looked()
		if log.count("cannot be read", "still_off=[shop/pay]") != 1 {
			t.Errorf("a file that is broken: the log does not say what is still off:\n%s", log.text.String())
		}
	}, lockmw.AllowOff())
}

// A name whose first call comes when off stands there already is shouted at once, and not a minute later.
func TestOffIsShoutedWithTheFirstCall(t *testing.T) {
	inFile(t, `{"shop/pay": {"off": true}}`, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, log *journal, _ *events) {
		time.Sleep(10 * time.Second)
		mustAcquire(t, l, "a", lockmw.Policy{Name: "pay"})
		synctest.Wait()
		if log.count("OFF", "names=[pay]") != 1 {
			t.Errorf("the log:\n%s", log.text.String())
		}
		for i := range 40 { // more policies of the name than are remembered
			mustAcquire(t, l, "b", lockmw.Policy{Name: "pay", Wait: time.Duration(i+1) * time.Second})
			synctest.Wait()
		}
		if n := log.count("OFF"); n != 1 {
			t.Errorf("%d lines for calls that come later", n)
		}
	}, lockmw.AllowOff())
}

// A trial that a setting has begun is over with it, also in Stats.
func TestATrialThatIsOverIsNotToldAnyMore(t *testing.T) {
	inFile(t, `{"shop/pay": {"shadow": true}}`, func(t *testing.T, d *settingsDir, l *lockmw.Locker, _ *journal, _ *events) {
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
		c, log := redistest.InMemory(t).Client(t), new(journal)
		l := fromRedis(t, c, log.option())
		all := make([]any, 0, 4000)
		for i := range 1000 {
			all = append(all, fmt.Sprintf("shop/broken%d", i), "{"+strings.Repeat("x", 1000), fmt.Sprintf("shop/whole%d", i), `{"wait":"3s"}`)
		}
		if err := c.HSet(t.Context(), "lockmw:settings:lock", all...).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := log.count("setting"); n > 50 {
			t.Errorf("%d lines", n)
		}
		if n := len(log.text.String()); n > 50<<10 {
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
