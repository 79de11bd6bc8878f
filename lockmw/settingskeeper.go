package lockmw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/settings"
)

// How settings are read, and end.

const (
	fileEvery  = 2 * time.Second
	redisEvery = 10 * time.Second

	// hintPause is the least time from one reading of Redis to the next, however many messages say that something has changed.
	hintPause = 200 * time.Millisecond

	// shoutEvery is how often the log says that work runs without its lock.
	shoutEvery = time.Minute

	mostFile     = 1 << 20 // bytes
	mostSettings = 1000    // of one source for one service

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

// A feed is a source and what it has said.
type feed struct {
	kind   string
	path   string                            // of a file
	known  map[settings.Pattern]*liveSetting // what it has for this service, also what has ended
	broken map[string]string                 // what cannot be read, by its pattern, and why; of a file as a whole by its path
	last   time.Time                         // when it was read last, or if it never was, when the Locker began

	// The goroutine that reads the source uses these alone.
	content []byte // of a file, as it was last looked at
	failing bool   // it could not be read the last time
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

// pause waits for d. It reports false if the Locker ends meanwhile.
func (k *settingsKeeper) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-k.ctx.Done():
		return false
	}
}

// watchFile looks at a file again and again.
func (k *settingsKeeper) watchFile(f *feed) {
	for k.pause(fileEvery) {
		k.lookAt(f)
	}
}

// lookAt looks at a file once.
func (k *settingsKeeper) lookAt(f *feed) {
	content, err := readFile(f.path)
	if err != nil {
		k.cannotRead(f, err)
		return
	}
	k.canRead(f)
	if f.content != nil && bytes.Equal(content, f.content) {
		k.readAgain(f)
		return
	}
	f.content = content
	entries, err := settings.ParseFile(content)
	if err != nil {
		k.mu.Lock()
		f.broken = map[string]string{f.path: err.Error()}
		k.mu.Unlock()
		k.locker.log.Error("lockmw: a file of settings cannot be read; nothing is changed until it is mended", "file", f.path, "error", err)
		return
	}
	k.accept(f, entries, nil, 0)
}

// errNoFile is why something else than a file is not read: a pipe would hang.
var errNoFile = errors.New("it is no regular file")

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // it follows symlinks, by which a ConfigMap changes
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	file, err := os.Open(path) //nolint:gosec // the program names the file
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, mostFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > mostFile:
		return nil, fmt.Errorf("it has more than %d bytes", mostFile)
	case content == nil:
		content = []byte{}
	}
	return content, nil
}

// watchRedis reads Redis again and again.
func (k *settingsKeeper) watchRedis(f *feed) {
	for {
		k.readRedis(f)
		if !k.pause(hintPause) {
			return
		}
		timer := time.NewTimer(redisEvery - hintPause)
		select {
		case <-timer.C:
		case <-k.hints:
		case <-k.ctx.Done():
		}
		timer.Stop()
		if k.ctx.Err() != nil {
			return
		}
	}
}

// readRedis reads Redis once.
func (k *settingsKeeper) readRedis(f *feed) {
	ctx, cancel := context.WithTimeout(k.ctx, opTimeout)
	defer cancel()
	texts, clock, err := k.locker.store.Settings(ctx)
	if k.ctx.Err() != nil {
		return
	}
	if err != nil {
		k.cannotRead(f, err)
		return
	}
	k.canRead(f)
	entries, broken := make(map[settings.Pattern]settings.Entry), make(map[string]string)
	for name, text := range texts {
		pattern, err := settings.ParsePattern(name)
		if err != nil || !pattern.Serves(k.service) { // of others; lockctl tells of one that is nobody's
			continue
		}
		entry, err := settings.Parse(text)
		if err != nil {
			broken[name] = err.Error()
			continue
		}
		entries[pattern] = entry
	}
	k.accept(f, entries, broken, clock)
}

// cannotRead notes that a source was not read, and logs the first time why.
func (k *settingsKeeper) cannotRead(f *feed, err error) {
	if !f.failing {
		k.locker.log.Warn("lockmw: settings cannot be read; those that are known stay until they end", "source", f.kind, "error", err)
		if f.kind == fromFile && errors.Is(err, fs.ErrNotExist) {
			f.content = nil // what comes in its place is told of
		}
	}
	f.failing = true
}

// canRead notes that a source was read, and logs it where the log says that it cannot be.
func (k *settingsKeeper) canRead(f *feed) {
	if f.failing {
		f.failing = false
		k.locker.log.Info("lockmw: settings can be read again", "source", f.kind)
	}
}

// readAgain notes that a source says what it said before.
func (k *settingsKeeper) readAgain(f *feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.broken[f.path] == "" {
		f.last = time.Now()
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
