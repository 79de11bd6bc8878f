// Package settings has what live settings are made of, for the engine, which applies them, and for lockctl, which writes
// them: which policies a setting is for (a Pattern), what it changes (a Change), and how both are written in a file and
// in Redis (an Entry). It knows no policy and does no I/O.
package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// None, as a duration of a Change, is the word none: a Wait of none is one attempt, and a MaxHold of none is no cap.
const None time.Duration = -1

// A Change is what a setting changes in a policy. What is zero it leaves alone.
type Change struct {
	Wait    time.Duration // for how long a call waits, in the place of Wait and Retries; None: one attempt
	MaxHold time.Duration // None: no cap
	TTL     time.Duration
	Shadow  Toggle // Policy.Shadow
	Off     bool   // work runs without its lock
}

// A Toggle is a field that is true or false, or not there, which leaves the policy's alone.
type Toggle uint8

// The values of a Toggle.
const (
	Absent Toggle = iota
	True
	False
)

// A field is one that a Change may have. Its name is the policy's, in lower case.
type field struct {
	name string
	set  func(c *Change, value string) error
	get  func(c Change) string // empty: the Change leaves it alone
}

// The names of the fields.
const (
	Wait    = "wait"
	MaxHold = "maxHold"
	TTL     = "ttl"
	Shadow  = "shadow"
	Off     = "off"
)

// A TTL is how long a process that dies keeps its locks from others, so a slip of the hand must not make it a day. What a
// policy's own TTL allows besides is known to its program alone.
const (
	shortest    = time.Millisecond
	shortestTTL = time.Second
	longestTTL  = time.Hour
	unlimited   = time.Duration(math.MaxInt64)
)

// latest is the last µs of the year 9999, the last of which JSON can tell the time.
const latest = 253_402_300_799_999_999

var fields = []field{
	{Wait, func(c *Change, v string) (err error) {
		c.Wait, err = duration(v, shortest, unlimited, true)
		return err
	}, func(c Change) string { return text(c.Wait) }},
	{MaxHold, func(c *Change, v string) (err error) {
		c.MaxHold, err = duration(v, shortest, unlimited, true)
		return err
	}, func(c Change) string { return text(c.MaxHold) }},
	{TTL, func(c *Change, v string) (err error) {
		c.TTL, err = duration(v, shortestTTL, longestTTL, false)
		return err
	}, func(c Change) string { return text(c.TTL) }},
	{Shadow, func(c *Change, v string) (err error) { c.Shadow, err = toggle(v); return err }, func(c Change) string { return toggled(c.Shadow) }},
	{Off, func(c *Change, v string) (err error) { c.Off, err = flag(v); return err }, func(c Change) string { return flagged(c.Off) }},
}

// Fields are the names of all fields, which a file may have.
func Fields() []string { return inFile.fields() }

// FieldsInRedis are the names of those that an entry in Redis may have.
func FieldsInRedis() []string { return inRedis.fields() }

// Where an entry stands.
type place uint8

const (
	inFile place = iota
	inRedis
)

func (p place) fields() (names []string) {
	for _, f := range fields {
		if p == inFile || f.name != Off {
			names = append(names, f.name)
		}
	}
	return names
}

// Covers reports whether c changes all that other does.
func (c Change) Covers(other Change) bool {
	for _, f := range fields {
		if f.get(other) != "" && f.get(c) == "" {
			return false
		}
	}
	return true
}

// ErrOff is why an entry in Redis cannot have off.
var ErrOff = errors.New(`off cannot be set in Redis, only in the service's file of settings, as in {"shop/pay": {"off": true, "until": "2026-11-28T15:00:00Z"}}: Redis may be away when off is needed`)

// Set gives a field of an entry in Redis its value, such as 5s. The error says which fields and values there are.
func (c *Change) Set(name, value string) error { return c.set(name, value, inRedis) }

func (c *Change) set(name, value string, at place) error {
	if name == Off && at == inRedis {
		return ErrOff
	}
	for _, f := range fields {
		if f.name == name {
			if err := f.set(c, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("%q is no field: there are %s", name, strings.Join(at.fields(), ", "))
}

// Has are the names of the fields that the Change has.
func (c Change) Has() (names []string) {
	for _, f := range fields {
		if f.get(c) != "" {
			names = append(names, f.name)
		}
	}
	return names
}

// String is the Change as one types it, such as "wait=5s ttl=1m0s".
func (c Change) String() string {
	var words []string
	for _, f := range fields {
		if value := f.get(c); value != "" {
			words = append(words, f.name+"="+value)
		}
	}
	return strings.Join(words, " ")
}

// Lasting reads for how long a setting is to last.
func Lasting(value string) (time.Duration, error) {
	return duration(value, time.Second, unlimited, false)
}

func duration(value string, least, most time.Duration, mayBeNone bool) (time.Duration, error) {
	if value == "none" && mayBeNone {
		return None, nil
	}
	none := ""
	if mayBeNone {
		none = ", or none"
	}
	d, err := time.ParseDuration(value)
	days, isNumber := strings.CutSuffix(value, "d")
	n, notDays := strconv.ParseUint(days, 10, 16)
	switch {
	case isNumber && notDays == nil:
		return 0, fmt.Errorf("%q: there is no unit for days: use %dh", value, 24*n)
	case err != nil:
		return 0, fmt.Errorf("%q is no duration such as 5s%s", value, none)
	case d < least:
		return 0, fmt.Errorf("%v is less than %v%s", d, least, none)
	case d > most:
		return 0, fmt.Errorf("%v is more than %v", d, most)
	}
	return d, nil
}

func text(d time.Duration) string {
	if d == None {
		return "none"
	}
	if d == 0 {
		return ""
	}
	return d.String()
}

func toggle(value string) (Toggle, error) {
	switch value {
	case "true":
		return True, nil
	case "false":
		return False, nil
	}
	return Absent, fmt.Errorf("%q: it is true or false, or left out", value)
}

func toggled(t Toggle) string {
	return [...]string{Absent: "", True: "true", False: "false"}[t]
}

func flag(value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, fmt.Errorf("%q: it is true or false, or left out", value)
	}
	return value == "true", nil
}

func flagged(on bool) string {
	if on {
		return "true"
	}
	return ""
}

// A Pattern says for which policies a setting is, in service/name. Either part may end with a *, which stands for whatever follows.
type Pattern struct{ Service, Name string }

const (
	mostService = 64  // bytes
	mostName    = 256 // bytes, as a policy's Name
)

// ParsePattern reads service/name. The first slash parts them.
func ParsePattern(text string) (Pattern, error) {
	service, name, ok := strings.Cut(text, "/")
	switch {
	case !ok:
		return Pattern{}, fmt.Errorf("%q is not service/name, such as shop/pay, shop/* or */pay", text)
	case name == "" || len(name) > mostName || !store.IsPrintable(name):
		return Pattern{}, fmt.Errorf("%q: the name behind the slash is 1 to %d bytes of printable text", text, mostName)
	}
	if err := CheckService(strings.TrimSuffix(service, "*")); err != nil && service != "*" {
		return Pattern{}, fmt.Errorf("%q: %w", text, err)
	}
	for _, part := range []string{service, name} {
		if at := strings.IndexByte(part, '*'); at >= 0 && at < len(part)-1 {
			return Pattern{}, fmt.Errorf("%q: a * stands at the end of the service or of the name, for whatever follows", text)
		}
	}
	return Pattern{service, name}, nil
}

// CheckService returns an error unless name may be that of a service: 1 to 64 bytes of printable text without blanks, slashes and *.
func CheckService(name string) error {
	if name == "" || len(name) > mostService || !store.IsPrintable(name) || strings.ContainsAny(name, "/* ") {
		return fmt.Errorf("%q is not the name of a service: 1 to %d bytes of printable text, without blanks, slashes and *", name, mostService)
	}
	return nil
}

// String is the pattern as it is written.
func (p Pattern) String() string { return p.Service + "/" + p.Name }

// Serves reports whether the pattern is for policies of that service.
func (p Pattern) Serves(service string) bool { return matches(p.Service, service) }

// Matches reports whether the pattern is for policies of that service and name.
func (p Pattern) Matches(service, name string) bool {
	return p.Serves(service) && matches(p.Name, name)
}

func matches(pattern, text string) bool {
	begin, open := strings.CutSuffix(pattern, "*")
	return text == pattern || open && strings.HasPrefix(text, begin)
}

// Compare is negative if a is more specific than b: first by its service and then by its name, of which one
// without * is the most specific, and of two with one the longer. Two patterns that match the same policy are never equal.
func Compare(a, b Pattern) int {
	return cmp.Or(compare(a.Service, b.Service), compare(a.Name, b.Name))
}

func compare(a, b string) int {
	aOpen, bOpen := strings.HasSuffix(a, "*"), strings.HasSuffix(b, "*")
	switch {
	case aOpen && !bOpen:
		return 1
	case !aOpen && bOpen:
		return -1
	}
	return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
}

// An Entry is a setting as it is written: what it changes, who has set it and why, and until when it is to last.
type Entry struct {
	Change

	Author string // who has set it; empty if that is not known
	Reason string // such as the number of an incident

	// Lasts is for how long the setting applies from when it was read, and Until when it ends, by the machine's clock. A file
	// has one of them or none, which is no end.
	Lasts time.Duration
	Until time.Time

	// Set and Over are of an entry in Redis: when it was set, and when it ends, in µs since 1970 by the clock of Redis.
	// A zero Over is no end.
	Set, Over int64
}

// Left returns for how long the entry applies from now on, and false if it has no end. clock is that of Redis, in µs
// since 1970, for an entry in Redis.
func (e Entry) Left(now time.Time, clock int64) (left time.Duration, ends bool) {
	switch {
	case e.Over != 0:
		const most = int64(unlimited / time.Microsecond)
		return time.Duration(min(max(e.Over-clock, -most), most)) * time.Microsecond, true
	case e.Lasts != 0:
		return e.Lasts, true
	case !e.Until.IsZero():
		return e.Until.Sub(now), true
	}
	return 0, false
}

// check returns what is wrong with the entry as a whole.
func (e Entry) check() error {
	switch {
	case e.Lasts != 0 && !e.Until.IsZero():
		return errors.New("for and until exclude each other")
	case e.Lasts != 0 && (e.Off || e.Shadow == True): // it would begin anew in each process that starts, and others would have the lock by then
		return errors.New(`what lets work run without its lock ends at the same time everywhere: not for, but until, such as "2026-11-28T15:00:00Z"`)
	case e.Set > latest || e.Over > latest:
		return errors.New("set and until are times in µs, up to the year 9999")
	case len(e.Author) > store.MostOfAuthor || !store.IsPrintable(e.Author):
		return fmt.Errorf("author is at most %d bytes of printable text", store.MostOfAuthor)
	case len(e.Reason) > store.MostOfReason || !store.IsPrintable(e.Reason):
		return fmt.Errorf("reason is at most %d bytes of printable text", store.MostOfReason)
	}
	return nil
}

// Parse reads what stands in Redis for a pattern.
func Parse(text string) (Entry, error) { return parse([]byte(text), inRedis) }

// Format checks an entry and writes it as it stands in Redis.
func (e Entry) Format() (string, error) {
	e.Lasts, e.Until = 0, time.Time{}
	switch err := e.check(); {
	case err != nil:
		return "", err
	case e.Off:
		return "", ErrOff
	case e.Change == (Change{}):
		return "", inRedis.changesNothing()
	}
	written := make(map[string]any)
	for _, f := range fields {
		if value := f.get(e.Change); value != "" {
			written[f.name] = value
		}
	}
	for name, value := range map[string]string{"author": e.Author, "reason": e.Reason} {
		if value != "" {
			written[name] = value
		}
	}
	for name, value := range map[string]int64{"set": e.Set, "until": e.Over} {
		if value != 0 {
			written[name] = value
		}
	}
	text, err := json.Marshal(written)
	return string(text), err
}

func (p place) changesNothing() error {
	return fmt.Errorf("it changes nothing: give it one of %s", strings.Join(p.fields(), ", "))
}

func parse(text []byte, at place) (Entry, error) {
	members, _, err := membersOf(text)
	if errors.Is(err, errNoObject) {
		return Entry{}, errNoObject
	}
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	saysOff := false // off: false is an entry, too: it stands in the place of a less specific one
	for _, m := range members {
		var value any
		decoder := json.NewDecoder(bytes.NewReader(m.value))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return Entry{}, err
		}
		if err := e.read(m.name, value, at); err != nil {
			return Entry{}, err
		}
		saysOff = saysOff || m.name == Off
	}
	if e.Change == (Change{}) && !saysOff {
		return Entry{}, at.changesNothing()
	}
	return e, e.check()
}

// read reads one value of an entry.
func (e *Entry) read(name string, value any, at place) error {
	text, isText := value.(string)
	if on, ok := value.(bool); ok {
		text, isText = strconv.FormatBool(on), true
	}
	number, isNumber := value.(json.Number)
	switch {
	case name == "author" && isText:
		e.Author = text
	case name == "reason" && isText:
		e.Reason = text
	case name == "for" && at == inFile && isText:
		lasts, err := Lasting(text)
		if err != nil {
			return fmt.Errorf("for: %w", err)
		}
		e.Lasts = lasts
	case name == "until" && at == inFile && isText:
		until, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("until: %q is no time such as 2026-11-28T15:00:00Z", text)
		}
		if e.Until = until.UTC(); e.Until.UnixMicro() > latest {
			return fmt.Errorf("until: %s is beyond the year 9999", text)
		}
	case (name == "set" || name == "until") && at == inRedis && isNumber:
		micros, err := number.Int64()
		if err != nil || micros <= 0 {
			return fmt.Errorf("%s: %s is no time in µs", name, number)
		}
		if name == "set" {
			e.Set = micros
		} else {
			e.Over = micros
		}
	case slices.Contains([]string{"author", "reason", "for", "until", "set"}, name):
		return fmt.Errorf("%s: a value of another kind is wanted", name)
	case !isText:
		return fmt.Errorf("%s: a text is wanted, such as \"5s\"", name)
	default:
		return e.Change.set(name, text, at)
	}
	return nil
}
