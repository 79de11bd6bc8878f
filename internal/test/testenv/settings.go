package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// service is the service of which the settings of tests are.
const service = "shop"

// SettingsInRedis has a new Locker take the place of r.Locks, whose settings SetWait changes.
func (r *Env) SettingsInRedis() {
	r.Helper()
	r.Locks = r.NewLocker(lockmw.WithService(service), lockmw.WithSettings(lockmw.SettingsInRedis()))
}

// SetWait sets, as lockctl does, for how long calls wait whose policy has that Name; zero takes the setting away. It returns when
// r.Locks knows that.
func (r *Env) SetWait(name string, wait time.Duration) {
	r.Helper()
	pattern, text, change := service+"/"+name, "", ""
	if wait > 0 {
		text, change = fmt.Sprintf(`{"wait":%q}`, wait), "wait="+wait.String()
	}
	if _, _, err := seam.Set(context.Background(), r.Locks, pattern, nil, text); err != nil {
		r.Fatal(err)
	}
	r.Until(fmt.Sprintf("the setting %s is %q", pattern, change), func() bool { return r.change(pattern) == change })
}

// change returns what r.Locks knows of a setting, or nothing.
func (r *Env) change(pattern string) string {
	known := seam.Settings(r.Locks).([]lockmw.Setting)
	if i := slices.IndexFunc(known, func(s lockmw.Setting) bool { return s.Pattern == pattern }); i >= 0 {
		return known[i].Change
	}
	return ""
}

// SwitchOff has a new Locker take the place of r.Locks, with AllowOff and a file by which the work of the policies of that Name runs
// without its lock.
func (r *Env) SwitchOff(name string) *Journal {
	r.Helper()
	file := filepath.Join(r.TempDir(), "settings.json")
	pattern := service + "/" + name
	text := fmt.Sprintf(`{%q: {"off": true, "author": %q, "reason": %q}}`, pattern, secretAuthor, secretReason)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	log := r.Logged(lockmw.WithService(service), lockmw.WithSettings(lockmw.SettingsFile(file)), lockmw.AllowOff())
	r.Until("the file is read", func() bool { return r.change(pattern) != "" }) // New waits for a second at most
	return log
}

// WantOff fails the test unless so many calls for key, given with its prefix, were told to have run without its lock, because of the
// setting for name, and unless the log says the same of name.
func (r *Env) WantOff(log *Journal, name, key string, calls int) {
	r.Helper()
	told := r.Told(lockmw.EventSwitchedOff)
	for _, ev := range told {
		if ev.Name != name || ev.Key != key {
			r.Errorf("told as switched off is %q of %q, want %q of %q", ev.Key, ev.Name, key, name)
		}
	}
	if len(told) != calls {
		r.Errorf("%d calls are told as switched off, want %d", len(told), calls)
	}
	says := []string{"level=ERROR", "OFF", "setting=" + service + "/" + name, "names=[" + name + "]", "author=" + secretAuthor, "because=" + secretReason}
	r.Until(fmt.Sprintf("the log says %q", says), func() bool { return len(log.Lines(says...)) > 0 })
}

// WantOn fails the test if any call was told to have run without its lock, or unless the log says that off does not fit the policy of
// that Name.
func (r *Env) WantOn(log *Journal, name string) {
	r.Helper()
	if told := r.Told(lockmw.EventSwitchedOff); len(told) > 0 {
		r.Errorf("told as switched off are %+v, want none", told)
	}
	says := []string{"does not fit", "name=" + name, "setting=" + service + "/" + name, "off"}
	r.Until(fmt.Sprintf("the log says %q", says), func() bool { return len(log.Lines(says...)) > 0 })
	if off := log.Lines("OFF"); len(off) > 0 {
		r.Errorf("the log says %q", off)
	}
}

// WantLock fails the test unless ctx is that of work under a lock.
func (r *Env) WantLock(ctx context.Context) {
	r.Helper()
	lease, found := lockmw.FromContext(ctx)
	if !found || lease.Fence() == 0 || !lease.Valid() || r.Token(lease.Key()) == "" {
		r.Errorf("the work has %v, want a lease with a lock", lease)
	}
}

// WantNoLock fails the test unless ctx is that of work that runs without its lock, though as if it had one.
func (r *Env) WantNoLock(ctx context.Context) {
	r.Helper()
	lease, found := lockmw.FromContext(ctx)
	if !found || lease.Fence() != 0 || !lease.ValidUntil().IsZero() || !lease.Valid() || lease.Shadow() {
		r.Errorf("the work has %v, want a lease without a lock", lease)
	}
}
