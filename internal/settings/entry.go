package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

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
