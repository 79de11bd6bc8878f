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
	"io"
	"maps"
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

const (
	shortest    = time.Millisecond
	shortestTTL = 100 * time.Millisecond
)

var fields = []field{
	{Wait, func(c *Change, v string) (err error) { c.Wait, err = duration(v, shortest, true); return err }, func(c Change) string { return text(c.Wait) }},
	{MaxHold, func(c *Change, v string) (err error) { c.MaxHold, err = duration(v, shortest, true); return err }, func(c Change) string { return text(c.MaxHold) }},
	{TTL, func(c *Change, v string) (err error) { c.TTL, err = duration(v, shortestTTL, false); return err }, func(c Change) string { return text(c.TTL) }},
	{Shadow, func(c *Change, v string) (err error) { c.Shadow, err = toggle(v); return err }, func(c Change) string { return toggled(c.Shadow) }},
	{Off, func(c *Change, v string) (err error) { c.Off, err = flag(v); return err }, func(c Change) string { return flagged(c.Off) }},
}

// Fields are the names of all fields.
func Fields() []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// Set gives a field its value, such as 5s. The error says which values there are.
func (c *Change) Set(name, value string) error {
	for _, f := range fields {
		if f.name == name {
			if err := f.set(c, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("%q is no field: there are %s", name, strings.Join(Fields(), ", "))
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

func duration(value string, least time.Duration, mayBeNone bool) (time.Duration, error) {
	if value == "none" && mayBeNone {
		return None, nil
	}
	none := ""
	if mayBeNone {
		none = ", or none"
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no duration such as 5s%s", value, none)
	case d < least:
		return 0, fmt.Errorf("%v is less than %v%s", d, least, none)
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
	if value != "true" {
		return false, fmt.Errorf("%q: it is true, or left out", value)
	}
	return true, nil
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
		return time.Duration(e.Over-clock) * time.Microsecond, true
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
	case e.Change == (Change{}):
		return fmt.Errorf("it changes nothing: give it one of %s", strings.Join(Fields(), ", "))
	case e.Lasts != 0 && !e.Until.IsZero():
		return errors.New("for and until exclude each other")
	case len(e.Author) > store.MostOfAuthor || !store.IsPrintable(e.Author):
		return fmt.Errorf("author is at most %d bytes of printable text", store.MostOfAuthor)
	case len(e.Reason) > store.MostOfReason || !store.IsPrintable(e.Reason):
		return fmt.Errorf("reason is at most %d bytes of printable text", store.MostOfReason)
	}
	return nil
}

// ParseFile reads a file: a JSON object with an entry for each pattern. What cannot be read is an error for
// the whole file.
func ParseFile(data []byte) (map[Pattern]Entry, error) {
	var texts map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&texts); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something behind the JSON object")
	}
	if texts == nil {
		return nil, errors.New("it is no JSON object, but null")
	}
	entries := make(map[Pattern]Entry, len(texts))
	for key, text := range texts {
		pattern, err := ParsePattern(key)
		if err != nil {
			return nil, err
		}
		entry, err := parse(text, inFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		entries[pattern] = entry
	}
	return entries, nil
}

// Parse reads what stands in Redis for a pattern.
func Parse(text string) (Entry, error) { return parse([]byte(text), inRedis) }

// errOff is why Redis cannot have off.
var errOff = errors.New("off stands in a file alone: while Redis is away nobody could read it there")

// Format checks an entry and writes it as it stands in Redis.
func (e Entry) Format() (string, error) {
	e.Lasts, e.Until = 0, time.Time{}
	if err := e.check(); err != nil {
		return "", err
	}
	if e.Off {
		return "", errOff
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

// Where an entry stands.
type place uint8

const (
	inFile place = iota
	inRedis
)

func parse(text []byte, at place) (Entry, error) {
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return Entry{}, errors.New("it is no JSON object")
	}
	var e Entry
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := e.read(name, values[name], at); err != nil {
			return Entry{}, err
		}
	}
	if e.Off && at == inRedis {
		return Entry{}, errOff
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
		lasts, err := duration(text, time.Second, false)
		if err != nil {
			return fmt.Errorf("for: %w", err)
		}
		e.Lasts = lasts
	case name == "until" && at == inFile && isText:
		until, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("until: %q is no time such as 2026-11-28T15:00:00Z", text)
		}
		e.Until = until
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
		return e.Change.Set(name, text)
	}
	return nil
}
