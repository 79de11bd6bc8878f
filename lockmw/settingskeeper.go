package lockmw

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/settings"
	"github.com/lockmw/kit/internal/store"
)

// Which settings apply: what the sources say is taken over, begins, ends and is told. settingsfeed.go reads the sources.

const (
	// shoutEvery is how often the log says that work runs without its lock.
	shoutEvery = time.Minute

	mostSettings     = 1000 // of one source for one service
	mostToldSettings = 20   // that begin or end at the same time, or say off, and have a line of their own in the log
	mostShoutedNames = 20   // that have a line of their own in the log when they are off, before it tells of all once a minute
	mostBroken       = 20   // settings of one source that cannot be used and are told by their names

	// andMore stands for the settings that cannot be used and are not told by their names. It is no pattern.
	andMore = "…"

	// clocksDiffer is by how much Redis may say otherwise of the end of a setting than was read before.
	clocksDiffer = time.Second

	// farAway is a time of which nobody asks how exactly it is known.
	farAway = 365 * 24 * time.Hour

	// lastLook is how long Close waits at most for a look at a file, which nothing can interrupt.
	lastLook = time.Second
)

// A settingsKeeper has the settings of a Locker: what the sources have said last, and the table of what applies.
type settingsKeeper struct {
	locker  *Locker
	loud    *slog.Logger // for what somebody has to mend: it logs also where nobody has given a logger
	service string
	mayOff  bool
	table   atomic.Pointer[settingsTable] // never nil

	ctx     context.Context // ends with the Locker
	cancel  context.CancelFunc
	running sync.WaitGroup
	hints   chan struct{} // that Redis is to be read; has room for one
	moved   chan struct{} // that another end may be the next, or may have come; has room for one

	mu       sync.Mutex // guards what follows, and that one table takes the place of another; nothing is sent or read meanwhile
	feeds    []*feed    // that of a file first: its settings count before those of Redis
	shoutDue time.Time  // when the log is to say again that work runs without its lock
	shouted  int        // how many Names had a line of their own since it has said so
}

// newSettingsKeeper returns a keeper that start has read, or nil if there is no source.
func newSettingsKeeper(l *Locker, o options) *settingsKeeper {
	if len(o.settings) == 0 {
		return nil
	}
	k := &settingsKeeper{
		locker: l, loud: l.reports.Shouting(), service: o.service, mayOff: o.allowsOff,
		hints: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	for _, source := range o.settings {
		k.feeds = append(k.feeds, &feed{kind: source.kind, path: source.path, last: time.Now()})
	}
	slices.SortFunc(k.feeds, func(a, b *feed) int { return strings.Compare(a.kind, b.kind) }) // file before redis
	first, _ := k.newSettingsTable(nil)
	k.table.Store(first)
	return k
}

// readsRedis reports whether settings come from Redis. A nil keeper has none.
func (k *settingsKeeper) readsRedis() bool {
	return k != nil && slices.ContainsFunc(k.feeds, func(f *feed) bool { return f.kind == fromRedis })
}

// start has the sources read until stop. A file has been read when it returns, if that did not hang.
func (k *settingsKeeper) start() {
	if k == nil {
		return
	}
	k.running.Go(k.endInTime)
	for _, f := range k.feeds {
		switch f.kind {
		case fromFile:
			looked := make(chan struct{})
			k.running.Go(func() { k.watchFile(f, looked) })
			if !within(firstLook, looked) {
				k.locker.log.Error("lockmw: the file of settings cannot be read: that hangs; nothing is set until it can be", "file", f.path)
			}
		case fromRedis:
			k.running.Go(func() { k.watchRedis(f) })
			k.locker.subscriber.start()
		}
	}
}

// within waits until c is closed, for d at most. It reports whether it is.
func within(d time.Duration, c <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
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
	within(lastLook, ended)
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

// accept takes over what a source says, in the place of what it said before. What is broken there changes nothing. read is when it was
// asked, or its text was there, and clock that of Redis then.
func (k *settingsKeeper) accept(f *feed, entries map[settings.Pattern]settings.Entry, broken map[string]string, read time.Time, clock int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := make(map[settings.Pattern]*liveSetting)
	if broken == nil {
		broken = make(map[string]string)
	}
	for _, pattern := range slices.SortedFunc(maps.Keys(entries), settings.Compare) { // of too many those count that are the most specific
		entry := entries[pattern]
		left, ends := entry.Left(read, clock)
		had := f.known[pattern]
		switch {
		case !pattern.Serves(k.service):
			continue
		case had != nil && had.entry == entry && (entry.Over == 0 || had.ends.agrees(left, read, time.Now())):
			known[pattern] = had
		case ends && left <= 0: // nobody has taken it away
		case len(known) >= mostSettings:
			broken[pattern.String()] = fmt.Sprintf("there are more than %d settings", mostSettings)
		default:
			live := &liveSetting{pattern: pattern, entry: entry, source: f.kind, since: time.Now()}
			if ends {
				live.ends = endIn(read, left)
			}
			if why := k.denies(entry); why != "" {
				live.denied, live.refused = true, []string{why}
			}
			known[pattern] = live
		}
	}
	f.broken, f.unused = k.breaks(f, broken, known), len(broken)
	f.known, f.last = known, read
	k.refresh(time.Now())
	nudge(k.moved)
}

// agrees reports whether the end of a setting is the one that Redis tells now: left was left at a moment between asked and now. It is another
// one where Redis's clock was set, or where both clocks of this machine stood still.
func (e end) agrees(left time.Duration, asked, now time.Time) bool {
	left = max(min(left, farAway), -farAway)
	remains := min(e.remains(instantOf(now)), farAway)
	return remains-left <= clocksDiffer && left-remains <= now.Sub(asked)+clocksDiffer
}

// denies says why the program does not allow an entry; empty: it does. Such an entry has taken the place of what was read before, and counts as
// none: for running processes and new ones alike, what is less specific counts.
func (k *settingsKeeper) denies(entry settings.Entry) string {
	switch {
	case k.mayOff:
		return ""
	case entry.Off:
		return "off: the program does not allow it (AllowOff)"
	case entry.Shadow == settings.True:
		return "shadow=true: the program does not allow it (AllowOff)"
	}
	return ""
}

// breaks logs what cannot be used and was not told before, and returns what is to be kept of it. The settings that stood in its place stay
// known. The caller holds mu.
func (k *settingsKeeper) breaks(f *feed, broken map[string]string, known map[settings.Pattern]*liveSetting) (kept map[string]string) {
	kept = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		if pattern, err := settings.ParsePattern(name); err == nil && f.known[pattern] != nil {
			known[pattern] = f.known[pattern]
		}
		if len(kept) == mostBroken {
			continue
		}
		why := store.Beginning(broken[name], store.MostOfReason)
		if f.broken[name] != why {
			k.loud.Warn("lockmw: a setting cannot be used, and changes nothing", "setting", name, "source", f.kind, "reason", why)
		}
		kept[name] = why
	}
	if more := len(broken) - len(kept); more > 0 {
		kept[andMore] = fmt.Sprintf("%d more cannot be used", more)
		if f.broken[andMore] != kept[andMore] {
			k.loud.Warn("lockmw: further settings cannot be used, and change nothing", "source", f.kind, "number", more)
		}
	}
	return kept
}

// refresh puts a table in place with what applies now, if that is something else than before, and tells what begins and
// ends. The caller holds mu.
func (k *settingsKeeper) refresh(now time.Time) {
	var lives []*liveSetting
	for _, f := range k.feeds {
		var of []*liveSetting
		for _, live := range f.known {
			if !live.ends.isOver(instantOf(now)) {
				of = append(of, live)
			}
		}
		slices.SortFunc(of, func(a, b *liveSetting) int { return settings.Compare(a.pattern, b.pattern) })
		lives = append(lives, of...)
	}
	before := k.table.Load()
	if !slices.Equal(lives, before.lives) {
		after, enforced := k.newSettingsTable(lives)
		k.tellAll(EventSettingEnded, before, before.lives, lives)
		k.tellAll(EventSettingBegan, after, lives, before.lives)
		k.table.Store(after) // behind the lines that say what it is about
		for _, name := range enforced {
			k.locker.shadows.forget(name)
		}
		k.shoutDue = now
	}
	k.shout(now)
}

// tellAll tells of the settings of a table that are in all and not in but; the log of the first ones by name.
func (k *settingsKeeper) tellAll(kind EventKind, t *settingsTable, all, but []*liveSetting) {
	n, denied, names := 0, 0, t.names((*verdict).applies)
	for _, live := range all {
		if slices.Contains(but, live) {
			continue
		}
		if n++; n <= mostToldSettings {
			log, level, text := k.line(kind, live, len(names[live]) > 0)
			log.Log(context.Background(), level, text, append(k.attrs(live), "names", settings.First(names[live], t.more[live]))...)
		}
		switch {
		case !live.denied:
			k.locker.tellLater(context.Background(), Event{Kind: kind, Setting: new(live.setting())})
		case n > mostToldSettings && kind == EventSettingBegan: // it neither begins nor ends, but somebody has to mend it
			denied++
		}
	}
	if n > mostToldSettings {
		k.locker.log.Info("lockmw: further settings begin or have ended", "number", n-mostToldSettings)
	}
	if denied > 0 {
		k.loud.Warn("lockmw: further settings would have work run without its lock, which the program does not allow (AllowOff): they change nothing", "number", denied)
	}
}

// line returns what the log says of a setting that begins or has ended, and which log. applies says that there is a name to which it applies.
func (k *settingsKeeper) line(kind EventKind, live *liveSetting, applies bool) (log *slog.Logger, level slog.Level, text string) {
	switch {
	case kind == EventSettingEnded:
		return k.locker.log, slog.LevelInfo, "lockmw: a setting applies no more"
	case live.denied:
		return k.loud, slog.LevelWarn, "lockmw: a setting would have work run without its lock, which the program does not allow (AllowOff): it changes nothing"
	case applies:
		return k.locker.log, slog.LevelInfo, "lockmw: a setting applies from now on"
	case len(live.refused) > 0:
		return k.locker.log, slog.LevelInfo, "lockmw: a setting is known, and fits none of the policies that it is for"
	default:
		return k.locker.log, slog.LevelInfo, "lockmw: a setting is known, and applies to none of the names that were used so far"
	}
}

// shout logs the names whose work runs without its lock, if that is due. The caller holds mu.
func (k *settingsKeeper) shout(now time.Time) {
	if now.Before(k.shoutDue) {
		return
	}
	t := k.table.Load()
	n, off := 0, t.names((*verdict).isOff)
	for _, live := range t.lives {
		if len(off[live]) == 0 && !t.more[live] {
			continue
		}
		if n++; n <= mostToldSettings {
			k.shoutOf(live, settings.First(off[live], t.more[live]))
		}
	}
	if n > mostToldSettings {
		k.locker.log.Error("lockmw: OFF: work runs without its lock, because further settings say so", "number", n-mostToldSettings)
	}
	k.shoutDue, k.shouted = now.Add(shoutEvery), 0
}

// shoutAtOnce logs that the work of one more Name runs without its lock. Of many that come within a minute, shout tells. The caller holds mu.
func (k *settingsKeeper) shoutAtOnce(live *liveSetting, name string) {
	if k.shouted++; k.shouted <= mostShoutedNames {
		k.shoutOf(live, []string{name})
	}
}

func (k *settingsKeeper) shoutOf(live *liveSetting, names []string) {
	k.locker.log.Error("lockmw: OFF: work runs without its lock, because a setting says so", append(k.attrs(live), "names", names)...)
}

func (k *settingsKeeper) attrs(live *liveSetting) []any {
	attrs := []any{"setting", live.pattern.String(), "change", live.entry.Change.String(), "source", live.source}
	attrs = append(attrs, Intervention{live.entry.Author, live.entry.Reason}.attrs()...)
	if !live.ends.isNever() {
		attrs = append(attrs, "left", max(live.ends.remains(now()), 0).Round(time.Second))
	}
	return attrs
}

// setting is what is told of a setting. Off says what its entry says: whether there is work that it is for, list knows.
func (s *liveSetting) setting() Setting {
	return Setting{
		Pattern: s.pattern.String(), Change: s.entry.Change.String(), Source: s.source,
		Author: s.entry.Author, Reason: s.entry.Reason, Off: s.entry.Off && !s.denied, Since: s.since, Ends: s.ends.at,
	}
}

// endInTime has settings end, and the log shout. Timers stand still where the machine is suspended: then what has ended ends when a source
// is read next.
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
		if !live.ends.isNever() && live.ends.at.Before(next) {
			next = live.ends.at
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
	applies, off := t.names((*verdict).applies), t.names((*verdict).isOff)
	for _, live := range t.lives {
		for _, field := range live.entry.Has() {
			s.Changed[field] += len(applies[live])
		}
		s.Off = append(s.Off, off[live]...)
		s.MoreOff = s.MoreOff || t.more[live]
		s.Refused += min(len(live.refused), 1)
	}
	slices.Sort(s.Off)
	for _, f := range k.feeds {
		s.Refused += f.unused
		s.Ages[f.kind] = time.Since(f.last)
	}
	return s
}

// list returns the settings that apply, those that count first in front, and then what cannot be read. A nil keeper has none.
func (k *settingsKeeper) list() (all []Setting) {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.table.Load()
	applies, off := t.names((*verdict).applies), t.names((*verdict).isOff)
	for _, live := range t.lives {
		s := live.setting()
		s.Names, s.MoreNames, s.Refused = applies[live], t.more[live], slices.Clone(live.refused)
		s.Off = len(off[live]) > 0 || t.more[live]
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
