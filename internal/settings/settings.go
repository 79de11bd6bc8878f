// Package settings has what live settings are made of, for the engine, which applies them, and for lockctl, which writes
// them: which policies a setting is for (a Pattern), what it changes (a Change), and how both are written in a file and
// in Redis (an Entry). It knows no policy and does no I/O.
package settings

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
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
