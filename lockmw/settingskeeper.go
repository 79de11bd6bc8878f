package lockmw

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/settings"
)

// Which settings apply: what the sources say is taken over, begins, ends and is told. settingsfeed.go reads the sources.

const (
	// shoutEvery is how often the log says that work runs without its lock.
	shoutEvery = time.Minute

	mostSettings = 1000 // of one source for one service

	// lastLook is how long Close waits at most for a look at a file, which nothing can interrupt.
	lastLook = time.Second
)

// A settingsKeeper has the settings of a Locker: what the sources have said last, and the table of what applies.
type settingsKeeper struct {
	locker  *Locker
	service string
	mayOff  bool
	table   atomic.Pointer[settingsTable] // never nil

	ctx     context.Context // ends with the Locker
	cancel  context.CancelFunc
	running sync.WaitGroup
	hints   chan struct{} // that Redis is to be read; has room for one
	moved   chan struct{} // that another end may be the next; has room for one

	mu       sync.Mutex // guards what follows, and that one table takes the place of another; nothing is sent or read meanwhile
	feeds    []*feed    // that of a file first: its settings count before those of Redis
	shoutDue time.Time  // when the log is to say again that work runs without its lock
}

// newSettingsKeeper reads what is in a file. It returns nil if there is no source.
func newSettingsKeeper(l *Locker, o options) *settingsKeeper {
	if len(o.settings) == 0 {
		return nil
	}
	k := &settingsKeeper{
		locker: l, service: o.service, mayOff: o.allowsOff,
		hints: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	for _, source := range o.settings {
		k.feeds = append(k.feeds, &feed{kind: source.kind, path: source.path, last: time.Now()})
	}
	slices.SortFunc(k.feeds, func(a, b *feed) int { return strings.Compare(a.kind, b.kind) }) // file before redis
	k.table.Store(k.newSettingsTable(nil))
	for _, f := range k.feeds {
		if f.kind == fromFile {
			k.lookAt(f)
		}
	}
	return k
}

// readsRedis reports whether settings come from Redis. A nil keeper has none.
func (k *settingsKeeper) readsRedis() bool {
	return k != nil && slices.ContainsFunc(k.feeds, func(f *feed) bool { return f.kind == fromRedis })
}

// start has the sources read until stop.
func (k *settingsKeeper) start() {
	if k == nil {
		return
	}
	k.running.Go(k.endInTime)
	for _, f := range k.feeds {
		switch f.kind {
		case fromFile:
			k.running.Go(func() { k.watchFile(f) })
		case fromRedis:
			k.running.Go(func() { k.watchRedis(f) })
			k.locker.subscriber.start()
		}
	}
}

// stop ends all that start has begun, and waits for that; for a look at a file that hangs, only so long.
func (k *settingsKeeper) stop() {
	if k == nil {
		return
	}
	k.cancel()
	ended := make(chan struct{})
	go func() {
		k.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(lastLook)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// hint says that Redis may have other settings. It does not block.
func (k *settingsKeeper) hint() {
	if k != nil {
		nudge(k.hints)
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// accept takes over what a source says, in the place of what it said before. What is broken there changes nothing. clock is
// that of Redis.
func (k *settingsKeeper) accept(f *feed, entries map[settings.Pattern]settings.Entry, broken map[string]string, clock int64) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	known := make(map[settings.Pattern]*liveSetting)
	if broken == nil {
		broken = make(map[string]string)
	}
	for pattern, entry := range entries {
		switch {
		case !pattern.Serves(k.service):
			continue
		case entry.Off && !k.mayOff:
			broken[pattern.String()] = "off: the program does not allow it (AllowOff)"
		case entry.Shadow == settings.True && !k.mayOff:
			broken[pattern.String()] = "shadow=true: the program does not allow it (AllowOff)"
		case len(known) >= mostSettings && f.known[pattern] == nil:
			broken[pattern.String()] = fmt.Sprintf("there are more than %d settings", mostSettings)
		case f.known[pattern] != nil && f.known[pattern].entry == entry:
			known[pattern] = f.known[pattern]
		default:
			live := &liveSetting{pattern: pattern, entry: entry, source: f.kind, since: now}
			if left, ends := entry.Left(now, clock); ends {
				live.ends = now.Add(left)
			}
			known[pattern] = live
		}
	}
	for name, why := range broken {
		if f.broken[name] != why {
			k.locker.log.Warn("lockmw: a setting cannot be used, and changes nothing", "setting", name, "source", f.kind, "reason", why)
		}
		if pattern, err := settings.ParsePattern(name); err == nil && f.known[pattern] != nil {
			known[pattern] = f.known[pattern]
		}
	}
	f.known, f.broken, f.last = known, broken, now
	k.refresh(now)
	nudge(k.moved)
}

// refresh puts a table in place with what applies now, if that is something else than before, and tells what begins and
// ends. The caller holds mu.
func (k *settingsKeeper) refresh(now time.Time) {
	var lives []*liveSetting
	for _, f := range k.feeds {
		var of []*liveSetting
		for _, live := range f.known {
			if live.ends.IsZero() || now.Before(live.ends) {
				of = append(of, live)
			}
		}
		slices.SortFunc(of, func(a, b *liveSetting) int { return settings.Compare(a.pattern, b.pattern) })
		lives = append(lives, of...)
	}
	before := k.table.Load().lives
	if !slices.Equal(lives, before) {
		for _, live := range before {
			if !slices.Contains(lives, live) {
				k.tell(live, EventSettingEnded, "lockmw: a setting applies no more")
			}
		}
		for _, live := range lives {
			if !slices.Contains(before, live) {
				k.tell(live, EventSettingBegan, "lockmw: a setting applies from now on")
			}
		}
		k.table.Store(k.newSettingsTable(lives)) // behind the lines that say what it is about
		k.shoutDue = now
	}
	k.shout(now)
}

// shout logs which settings have work run without its lock, if that is due. The caller holds mu.
func (k *settingsKeeper) shout(now time.Time) {
	if now.Before(k.shoutDue) {
		return
	}
	for _, live := range k.table.Load().lives {
		if live.entry.Off {
			k.locker.log.Error("lockmw: OFF: work runs without its lock, because a setting says so", k.attrs(live)...)
		}
	}
	k.shoutDue = now.Add(shoutEvery)
}

// tell logs what happens to a setting, and tells the observers.
func (k *settingsKeeper) tell(live *liveSetting, kind EventKind, text string) {
	k.locker.log.Info(text, k.attrs(live)...)
	k.locker.tellLater(context.Background(), Event{Kind: kind, Setting: new(live.setting())})
}

func (k *settingsKeeper) attrs(live *liveSetting) []any {
	attrs := []any{"setting", live.pattern.String(), "change", live.entry.Change.String(), "source", live.source}
	attrs = append(attrs, Intervention{live.entry.Author, live.entry.Reason}.attrs()...)
	if !live.ends.IsZero() {
		attrs = append(attrs, "left", max(time.Until(live.ends), 0).Round(time.Second))
	}
	return attrs
}

// setting is what is told of a setting.
func (s *liveSetting) setting() Setting {
	return Setting{
		Pattern: s.pattern.String(), Change: s.entry.Change.String(), Source: s.source,
		Author: s.entry.Author, Reason: s.entry.Reason, Off: s.entry.Off, Since: s.since, Ends: s.ends,
	}
}

// endInTime has settings end, and the log shout.
func (k *settingsKeeper) endInTime() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-k.moved:
		case <-k.ctx.Done():
			return
		}
		now := time.Now()
		k.mu.Lock()
		k.refresh(now)
		next := k.next()
		k.mu.Unlock()
		timer.Reset(next.Sub(now))
	}
}

// next is when something is due at the latest. The caller holds mu.
func (k *settingsKeeper) next() time.Time {
	next := k.shoutDue
	for _, live := range k.table.Load().lives {
		if !live.ends.IsZero() && live.ends.Before(next) {
			next = live.ends
		}
	}
	return next
}

// stats are the numbers about settings. A nil keeper has none.
func (k *settingsKeeper) stats() *SettingsStats {
	if k == nil {
		return nil
	}
	s := &SettingsStats{Changed: make(map[string]int), Ages: make(map[string]time.Duration)}
	for _, field := range settings.Fields() {
		s.Changed[field] = 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.table.Load()
	for name, slot := range *t.slots.Load() {
		changes, off := slot.effect()
		if changes {
			for _, field := range slot.live.entry.Has() {
				s.Changed[field]++
			}
		}
		if off {
			s.Off = append(s.Off, name)
		}
	}
	slices.Sort(s.Off)
	for _, live := range t.lives {
		s.Refused += min(len(live.refused), 1)
	}
	for _, f := range k.feeds {
		s.Refused += len(f.broken)
		s.Ages[f.kind] = time.Since(f.last)
	}
	return s
}

// effect reports whether the slot's setting changes a policy of its Name, and whether one's work runs without its lock.
func (n *nameSlot) effect() (changes, off bool) {
	for _, v := range n.all() {
		changes, off = changes || v.changes, off || v.off
	}
	return changes, off
}

// list returns the settings that apply, those that count first in front, and then what cannot be read. A nil keeper has none.
func (k *settingsKeeper) list() (all []Setting) {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.table.Load()
	names := make(map[*liveSetting][]string)
	for name, slot := range *t.slots.Load() {
		if changes, _ := slot.effect(); changes {
			names[slot.live] = append(names[slot.live], name)
		}
	}
	for _, live := range t.lives {
		s := live.setting()
		s.Names, s.Refused = slices.Sorted(slices.Values(names[live])), slices.Clone(live.refused)
		all = append(all, s)
	}
	for _, f := range k.feeds {
		var unread []Setting
		for name, why := range f.broken {
			unread = append(unread, Setting{Pattern: name, Source: f.kind, Refused: []string{why}})
		}
		slices.SortFunc(unread, func(a, b Setting) int { return strings.Compare(a.Pattern, b.Pattern) })
		all = append(all, unread...)
	}
	return all
}
