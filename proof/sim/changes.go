package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// This file has the operators who change settings while calls are under way. explain.go has what a call may know of that.

// A Change is what an operator does to the settings at a moment.
type Change struct {
	At      time.Duration
	File    bool          // in the file; otherwise in Redis
	Pattern string        // for which policies; "": for all there are, which are taken away, or are in a file that cannot be read
	Set     Fields        // what is set; the zero value takes away what was
	For     time.Duration // until when; 0: without an end
	Broken  string        // stands there instead, and cannot be read
	Silent  bool          // no message says so
}

// Fields are what a setting changes. What is zero it leaves alone.
type Fields struct {
	Wait, MaxHold, TTL time.Duration // none: the word
	Shadow             string        // true or false
	Off                bool
}

// none is the word none in the place of a duration: one attempt, or no cap.
const none time.Duration = -1

// Sources of a process's settings.
const (
	readsRedis = 1 << iota
	readsFile
)

// String tells the change.
func (c Change) String() string {
	where, what := "in Redis", c.Set.String()
	if c.File {
		where = "in the file"
	}
	switch {
	case c.Broken != "":
		what = c.Broken
	case c.Set == Fields{}:
		what = "nothing"
	}
	if c.For > 0 {
		what += fmt.Sprintf(" for %v", c.For)
	}
	if c.Silent {
		what += ", and nobody is told"
	}
	return fmt.Sprintf("at %v: %q is %s %s", c.At, c.Pattern, what, where)
}

// String is the fields as an operator types them.
func (f Fields) String() string {
	var words []string
	for _, field := range f.list() {
		words = append(words, field[0]+"="+field[1])
	}
	return strings.Join(words, " ")
}

// list are the fields that are set, with their values.
func (f Fields) list() (all [][2]string) {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"wait", f.Wait}, {"maxHold", f.MaxHold}, {"ttl", f.TTL}} {
		switch d.value {
		case 0:
		case none:
			all = append(all, [2]string{d.name, "none"})
		default:
			all = append(all, [2]string{d.name, d.value.String()})
		}
	}
	if f.Shadow != "" {
		all = append(all, [2]string{"shadow", f.Shadow})
	}
	if f.Off {
		all = append(all, [2]string{"off", "true"})
	}
	return all
}

// changedSeeds: each of so many seeds has settings, so that those that had none before go on without.
const changedSeeds = 4

// change adds settings and who changes them to the plan.
func (p *Plan) change(r *rand.Rand) {
	longer := []int{1, 5, 25}[r.IntN(3)] // so that something is settled for a while
	if r.IntN(2) == 0 {
		p.Faults = p.Faults[:len(p.Faults)/3]
	}
	var kinds, services []string
	for i := range p.Processes {
		process := &p.Processes[i]
		process.Service = fmt.Sprint("sim", i%2)
		services = append(services, process.Service)
		process.Reads = []int{readsRedis, readsRedis, readsFile, readsRedis | readsFile}[r.IntN(4)]
		process.MayOff = r.IntN(3) > 0
		for c := range process.Callers {
			c := &process.Callers[c]
			times := longer
			if c.Wishes[0].Kind == crowd {
				times = max(longer/5, 1)
			}
			c.Pause = time.Duration(times * int(c.Pause))
			for n := range c.Wishes {
				w := &c.Wishes[n]
				w.Policy.Name = string(w.Kind)
				w.Policy.Shadow = !w.needsLock() && r.IntN(6) == 0
				kinds = append(kinds, w.Policy.Name)
			}
		}
	}
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	var patterns []string
	for range 2 + r.IntN(3) {
		kind, service := pick(kinds...), pick(services...)
		patterns = append(patterns, pick(service, service, "sim*", "*")+"/"+pick(kind, kind, kind[:1]+"*", "*"))
	}
	pace := []time.Duration{20 * time.Millisecond, 150 * time.Millisecond, 2 * time.Second, 5 * time.Second}[r.IntN(4)]
	for at := between(r, 0, 2*pace); at < changesLast; at += between(r, time.Microsecond, 2*pace) {
		p.Changes = append(p.Changes, newChange(r, at, pick(patterns...)))
	}
}

// changesLast is for how long settings are changed, if calls go on for so long.
const changesLast = 90 * time.Second

func newChange(r *rand.Rand, at time.Duration, pattern string) Change {
	c := Change{At: at, Pattern: pattern, File: r.IntN(3) == 0, Silent: r.IntN(4) == 0}
	switch r.IntN(12) {
	case 0, 1: // it is taken away
		return c
	case 2:
		c.Pattern = ""
		return c
	case 3:
		c.Broken = brokenSettings[r.IntN(len(brokenSettings))]
		if !c.File && r.IntN(5) == 0 {
			c.Broken = `{"off": true}` // it stands in a file alone
		}
		return c
	case 4:
		if c.File {
			c.Pattern, c.Broken = "", []string{"{", "null", `{"sim0/mutex": {"wait": "soon"}}`, noFile}[r.IntN(4)]
			return c
		}
		c.Pattern = []string{"sim0", "sim0/", "s*m/mutex"}[r.IntN(3)] // is none
	}
	if r.IntN(2) == 0 {
		c.For = between(r, 100*time.Millisecond, 4*time.Second)
		if c.File {
			c.For = between(r, time.Second, 4*time.Second)
		}
	}
	for range 1 + r.IntN(2) {
		switch f := &c.Set; r.IntN(6) {
		case 0, 1:
			f.Wait = []time.Duration{none, between(r, time.Millisecond, 200*time.Millisecond), between(r, time.Second, longestWait)}[r.IntN(3)]
		case 2:
			f.MaxHold = []time.Duration{none, between(r, time.Second, 4*time.Second), between(r, time.Millisecond, 300*time.Millisecond)}[r.IntN(3)]
		case 3:
			f.TTL = []time.Duration{between(r, time.Second, 5*time.Second), between(r, 5*time.Second, longestTTL)}[r.IntN(2)]
		case 4:
			f.Shadow = []string{"true", "false"}[r.IntN(2)]
		case 5:
			f.Off = c.File
			f.Shadow = []string{"", "true"}[r.IntN(2)]
			if !f.Off && f.Shadow == "" {
				f.Wait = none
			}
		}
	}
	return c
}

const (
	longestWait = 8 * time.Second  // that a setting says
	longestTTL  = 40 * time.Second // the same
)

// brokenSettings cannot be read in the place of a setting.
var brokenSettings = []string{
	"wait=5s", "{}", `{"wait": "0s"}`, `{"wait": 5}`, `{"ttl": "none"}`, `{"ttl": "50ms"}`, `{"minHold": "1s"}`, `{"shadow": "yes"}`, `{"off": "no"}`, `{"wait": "5s", "until": "soon"}`,
}

// noFile is a file that is not there.
const noFile = "no file"

// A desk is where operators change settings, and what they have changed.
type desk struct {
	world *world
	locks *lockmw.Locker // past all faults
	path  string         // of the file
	n     int            // changes that were made

	// The judge's mutex guards what follows.
	redis, file map[string][]*stands // what stood there under each pattern, one after the other
	patterns    []string             // all that the plan has
	whole       string               // stands in the place of the file
}

// A stands is what stands in a source under a pattern from a moment on.
type stands struct {
	at, by time.Time // since when at the earliest, and at the latest; a zero by: it is being written
	told   bool      // a message says so
	text   string    // as it is written; empty: nothing
	broken bool
	set    Fields
	lasts  time.Duration // of an entry of the file: from when it is read
	ends   time.Time     // of an entry in Redis, if the server's clock does not jump any more, and of one of the file that lets work run without its lock
	skew   time.Duration // how far the server's clock was ahead when an entry in Redis was written
}

// newDesk opens a desk; nil where the plan changes nothing.
func newDesk(t *testing.T, w *world) *desk {
	t.Helper()
	if w.plan.Changes == nil {
		return nil
	}
	locks, err := lockmw.New(w.plain)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{
		world: w, locks: locks, path: filepath.Join(t.TempDir(), "settings.json"),
		redis: make(map[string][]*stands), file: make(map[string][]*stands),
	}
	for _, c := range w.plan.Changes {
		if c.Pattern != "" && !slices.Contains(d.patterns, c.Pattern) {
			d.patterns = append(d.patterns, c.Pattern)
		}
	}
	d.write("{}")
	return d
}

// options are those of a process, which reads settings.
func (d *desk) options(p Process) (opts []lockmw.Option) {
	if d == nil {
		return nil
	}
	if p.Reads&readsRedis != 0 {
		opts = append(opts, lockmw.WithSettings(lockmw.SettingsInRedis()))
	}
	if p.Reads&readsFile != 0 {
		opts = append(opts, lockmw.WithSettings(lockmw.SettingsFile(d.path)))
	}
	if p.MayOff {
		opts = append(opts, lockmw.AllowOff())
	}
	return append(opts, lockmw.WithService(p.Service))
}

// operates makes the plan's changes until ctx ends.
func (d *desk) operates(ctx context.Context) {
	for _, c := range d.world.plan.Changes {
		sleep(ctx, time.Until(d.world.began.Add(c.At)))
		if ctx.Err() != nil {
			break
		}
		d.n++
		if c.File {
			d.changeFile(c)
		} else {
			d.changeRedis(c)
		}
	}
	_ = d.locks.Close(context.Background())
}

// changeRedis makes a change in Redis.
func (d *desk) changeRedis(c Change) {
	patterns := []string{c.Pattern}
	if c.Pattern == "" {
		patterns = d.patterns
	}
	for _, pattern := range patterns {
		s := &stands{at: time.Now(), told: !c.Silent, broken: c.Broken != "", set: c.Set, text: c.Broken}
		if c.Broken == "" && c.Set != (Fields{}) {
			entry := d.entry(c)
			if c.For > 0 {
				s.ends, s.skew = time.UnixMicro(time.Now().Add(c.For).UnixMicro()), d.world.judge.clock()
				entry["until"] = s.ends.Add(s.skew).UnixMicro()
			}
			s.text = jsonOf(entry)
		}
		d.note(d.redis, pattern, s)
		var err error
		ctx := context.Background()
		switch name := "lockmw:settings:lock"; {
		case !c.Silent:
			_, _, err = seam.Set(ctx, d.locks, pattern, nil, s.text)
		case s.text == "":
			err = d.world.plain.HDel(ctx, name, pattern).Err()
		default:
			err = d.world.plain.HSet(ctx, name, pattern, s.text).Err()
		}
		if err != nil {
			d.world.judge.addf("an operator cannot change a setting: %v", err)
		}
		d.done(s)
	}
}

// entry is what a change sets. No two are the same.
func (d *desk) entry(c Change) map[string]any {
	entry := map[string]any{"author": "ada", "reason": fmt.Sprint("INC-", d.n)}
	for _, field := range c.Set.list() {
		entry[field[0]] = field[1]
	}
	return entry
}

// changeFile makes a change in the file.
func (d *desk) changeFile(c Change) {
	d.whole = ""
	if c.Broken != "" { // nothing of such a file counts
		d.whole = c.Broken
		if c.Pattern != "" {
			d.whole = fmt.Sprintf("{%q: %s}", c.Pattern, c.Broken)
		}
	}
	var parts []string
	for _, pattern := range d.patterns {
		s := &stands{at: time.Now()}
		for _, was := range slices.Backward(d.file[pattern]) {
			if !was.broken { // what was broken is mended
				again := *was
				again.at = s.at
				s = &again
				break
			}
		}
		switch {
		case c.Broken != "":
			s = &stands{at: s.at, broken: true}
		case pattern == c.Pattern, c.Pattern == "":
			s = &stands{at: s.at, set: c.Set}
			if c.Set != (Fields{}) {
				entry := d.entry(c)
				switch {
				case c.For == 0:
				case c.Set.Off, c.Set.Shadow == "true": // they end at the same time everywhere
					s.ends = s.at.Add(c.For)
					entry["until"] = s.ends.UTC().Format(time.RFC3339Nano)
				default:
					s.lasts = c.For
					entry["for"] = c.For.String()
				}
				s.text = jsonOf(entry)
			}
		}
		if s.text != "" {
			parts = append(parts, fmt.Sprintf("%q: %s", pattern, s.text))
		}
		s.by = s.at
		d.note(d.file, pattern, s)
	}
	if d.whole != "" {
		d.write(d.whole)
	} else {
		d.write("{" + strings.Join(parts, ",\n") + "}")
	}
}

// write puts a text in the place of the file, as a whole.
func (d *desk) write(text string) {
	next := d.path + ".next"
	if text == noFile {
		_ = os.Remove(d.path)
		return
	}
	err := os.WriteFile(next, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(next, d.path)
	}
	if err != nil {
		d.world.judge.addf("an operator cannot write the file of settings: %v", err)
	}
}

// note notes what stands somewhere from now on, unless it stood there before.
func (d *desk) note(source map[string][]*stands, pattern string, s *stands) {
	d.world.judge.mu.Lock()
	defer d.world.judge.mu.Unlock()
	if all := source[pattern]; len(all) > 0 {
		if last := all[len(all)-1]; last.text == s.text && !last.broken && !s.broken { // it goes on
			return
		}
	}
	source[pattern] = append(source[pattern], s)
}

// done notes that what is to stand somewhere does.
func (d *desk) done(s *stands) {
	d.world.judge.mu.Lock()
	defer d.world.judge.mu.Unlock()
	s.by = time.Now()
}

// forgets notes that Redis is about to forget what stood there, and forgotten that it has; nobody is told.
func (d *desk) forgets() (forgotten func()) {
	if d == nil {
		return func() {}
	}
	nothing := &stands{at: time.Now()}
	for _, pattern := range d.patterns {
		d.note(d.redis, pattern, nothing)
	}
	return func() { d.done(nothing) }
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
