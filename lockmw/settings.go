package lockmw

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/lockmw/kit/internal/settings"
)

// Live settings: what operators change of policies while the program runs. What users see of them is here, what becomes of
// a policy in settingstable.go, and how settings are read and end in settingskeeper.go.

// A SettingsSource is where settings are read from: SettingsFile or SettingsInRedis.
type SettingsSource struct {
	kind string // one of the two below
	path string // of a file
}

// The kinds of sources, as Setting.Source has them.
const (
	fromFile  = "file"
	fromRedis = "redis"
)

// SettingsFile reads settings from the file at path, which is looked at every two seconds, as a ConfigMap that is mounted
// changes. It is a JSON object with an entry for each service/name, such as
// {"shop/pay": {"wait": "5s", "for": "1h", "author": "ada", "reason": "INC-42"}, "shop/*": {"maxHold": "2m"}}.
//
// Fields are wait, maxHold, ttl, shadow and off, see WithSettings; for (counted from when this process has read the entry) or until (a time, as in
// 2026-11-28T15:00:00Z, which the machine's clock is compared with when the entry is read) says when it ends; author and reason are
// told in the log and to observers. An entry that does not change keeps its end while others do. off and shadow may be false, for an exception from a less
// specific entry. What is there twice makes the whole file one that cannot be read.
//
// New and NewQuorum read the file once, before they return; for one that hangs, as on a file server that is away, they wait for a second. A
// file that cannot be read as a whole (it is not there, is no such JSON, or
// has a field or a value that there is not) changes nothing: the settings that are known stay until they end, and the log
// says so, once for each content. A file with {} has no settings.
func SettingsFile(path string) SettingsSource { return SettingsSource{fromFile, path} }

// SettingsInRedis reads settings from the Redis of New, where lockctl policy set puts them: from the hash lockmw:settings:<namespace>. It
// is read in the background: after New, whenever a message says that it has changed, when Redis is back, and every ten
// seconds. A call that comes before the first reading runs with the program's policy.
//
// While Redis cannot be reached, or the user may not read the hash, the settings that are known stay until they end; the log says so, once. An
// entry that cannot be read changes nothing: one that stood in its place before stays until its end. off is none of its fields.
// NewQuorum refuses it, because no node of a quorum can speak for the others.
func SettingsInRedis() SettingsSource { return SettingsSource{kind: fromRedis} }

// WithSettings lets operators change policies while the program runs, by entries for service/name: the service is what
// WithService says, and the name is a policy's Name, or its Prefix where it has none. Either may end with a *, for whatever follows. The
// most specific entry counts, and no other: first by its service, then by its name; without * before with one, and a longer one before
// a shorter one.
//
// An entry changes one or more of:
//
//   - wait: for how long a call waits, in the place of Wait and Retries; none is one attempt;
//   - maxHold: MaxHold; none is no cap. A shorter one than the program's is at least a second, and needs AllowOff: work that does not heed its
//     context goes on beside the next holder's;
//   - ttl: TTL. It may be raised, to an hour at most, or lowered to 5 s at least;
//   - shadow: Shadow. Whoever may write settings could do without the lock by true, so that needs AllowOff; false, with which a trial
//     ends and the lock is taken, does not;
//   - off: work runs without its lock. Only a file may say so, and only to a Locker with AllowOff.
//
// It changes nothing else, and so nothing by which two would hold a lock that exclude each other, or be at work under it, unless the program says
// AllowOff. It counts for calls of Acquire (and whatever calls it)
// that begin while it applies; leases and calls that wait stay as they are. An entry that does not fit one of the policies
// with its name, as it is with the change, leaves that policy as the program has it, as a whole: where Validate refuses the result, where it would have Once
// or a Leader wait, have Do, Once or a Leader work without a lock, or lower the MaxHold of Do or a Leader. The log says so, once for each name and
// reason.
//
// The end of an entry is counted by the time that has passed since it was read, so another clock does not move it. Its begin and its end are
// logged, and told to observers as EventSettingBegan and EventSettingEnded, with its author and the reason.
//
// The option may be given once for each kind of source. Where both have an entry for a policy, that of the file counts. Goroutines
// that read the sources begin with New and end with Close. Acquire costs some 20 ns more.
func WithSettings(source SettingsSource) Option {
	return func(o *options) error {
		switch {
		case source.kind == "":
			return errors.New("WithSettings: the source is of neither SettingsFile nor SettingsInRedis")
		case source.kind == fromFile && source.path == "":
			return errors.New("WithSettings: SettingsFile without a path")
		}
		for _, other := range o.settings {
			if other.kind == source.kind {
				return fmt.Errorf("WithSettings: there are two sources of the kind %q", source.kind)
			}
		}
		o.settings = append(o.settings, source)
		return nil
	}
}

// WithService says which service this is, for WithSettings: 1 to 64 bytes of printable text without blanks, slashes and *.
// The default is the name of the program's file.
func WithService(name string) Option {
	return func(o *options) error {
		if err := settings.CheckService(name); err != nil {
			return fmt.Errorf("WithService: %w", err)
		}
		o.service = name
		return nil
	}
}

// defaultService is the name of the program's file, with what no service may have in its name replaced.
func defaultService() string {
	if len(os.Args) == 0 {
		return "unknown"
	}
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '*' || r == ' ' || r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '-'
		}
		return r
	}, strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"))
	if settings.CheckService(name) != nil {
		return "unknown"
	}
	return name
}

// AllowOff lets operators have work run without its lock, at the same time as whatever else is at work under the key, here
// and elsewhere: by off in a SettingsFile, for the day on which locks do more harm than good; by shadow=true in any source, for a
// lock that refuses too much on its first day; and by a maxHold that is shorter than the program's, where work does not heed its
// context. Do, Once and Leader never work without a lock, whatever the settings say. Without WithSettings it does nothing.
//
// What a call with shadow=true gets Policy.Shadow says. A lease of a call that is off is one without a lock, as with Policy.FailOpen: its
// Fence is 0 and its ValidUntil the zero time, and it is Valid until its MaxHold has passed. Observers are told EventSwitchedOff in the
// place of EventAcquired. While off applies the log says so, at the level of errors, when it begins and once a minute.
func AllowOff() Option {
	return func(o *options) error {
		o.allowsOff = true
		return nil
	}
}

// A Setting is an entry of a source of WithSettings, as a Locker has read it.
type Setting struct {
	Pattern string    `json:"pattern"`         // service/name, as it stands there
	Change  string    `json:"change"`          // what it changes, such as "wait=5s"; empty where it changes nothing, or cannot be read
	Source  string    `json:"source"`          // file or redis
	Author  string    `json:"author,omitzero"` // who has set it, as they say
	Reason  string    `json:"reason,omitzero"` // why, as they say
	Off     bool      `json:"off,omitzero"`    // work runs without its lock
	Since   time.Time `json:"since,omitzero"`  // since when this process knows it
	Ends    time.Time `json:"ends,omitzero"`   // the zero time: it has no end

	// Names are those to whose policies it applies in this process, of the calls that came so far; Refused says where it
	// does not, and why. Both are empty in events.
	Names   []string `json:"names,omitempty"`
	Refused []string `json:"refused,omitempty"`
}

// SettingsStats are numbers about the settings of one Locker at a moment.
type SettingsStats struct {
	// Changed has for each field that a setting may have for how many Names it is changed now. A Name counts from its first call on.
	Changed map[string]int

	// Off has the Names whose work runs without its lock now, because a setting says so.
	Off []string

	// Refused is how many settings cannot be read, or do not fit a policy.
	Refused int

	// Ages has for each source (file, redis) how long ago it was read last, or if it never was, since New.
	Ages map[string]time.Duration
}
