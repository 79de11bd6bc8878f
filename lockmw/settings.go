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

// A SettingsSource is where settings are read from. SettingsFile and SettingsInRedis return one.
type SettingsSource struct {
	kind string // one of the two below
	path string // of a file
}

// The kinds of sources, as Setting.Source has them.
const (
	fromFile  = "file"
	fromRedis = "redis"
)

// SettingsFile reads settings from the file at path. The file is looked at every two seconds, and may be one of a mounted ConfigMap. It is
// a JSON object with an entry for each service/name, such as
// {"shop/pay": {"wait": "5s", "for": "1h", "author": "ada", "reason": "INC-42"}, "shop/*": {"maxHold": "2m"}}.
//
// The fields wait, maxHold, ttl, shadow and off say what an entry changes, see WithSettings. off and shadow may be false, for an exception
// from a less specific entry. An entry may have an end: by for, which counts from when this process has read the entry, or by until, a time
// as in 2026-11-28T15:00:00Z, with which the machine's clock is compared when the entry is read. An entry with off or shadow true may not
// have for. author and reason are told in the log and to observers. An entry that does not change keeps its end when others change.
//
// A file cannot be read as a whole if it is not there, has more than 1 MiB, is not such a JSON object, has something twice, or has an
// unknown field or value. Such a file changes nothing: the settings that are known stay until they end, and the log says so, once for each
// content. A file with {} has no settings.
//
// New and NewQuorum read the file once before they return. If reading it hangs, as on a file server that is away, they wait for a second.
func SettingsFile(path string) SettingsSource { return SettingsSource{fromFile, path} }

// SettingsInRedis reads settings from the Redis of New: from the hash lockmw:settings:<namespace>, where lockctl policy set puts them. The
// hash is read in the background: after New, whenever a message says that it has changed, when Redis is back, and every ten seconds. A call
// that comes before the first reading runs with the program's policy.
//
// While Redis cannot be reached, or the user may not read the hash, the settings that are known stay until they end. The log says so, once
// for an outage, and once more where a right turns out to be missing. An entry that cannot be read changes nothing: the one that stood in
// its place before stays until its end, in a process that has read it. An entry in Redis cannot have off. NewQuorum refuses this source, because no node of a quorum can speak for the others.
func SettingsInRedis() SettingsSource { return SettingsSource{kind: fromRedis} }

// WithSettings lets operators change policies while the program runs, by entries for service/name. The service is what WithService says.
// The name is a policy's Name, or its Prefix if it has no Name. Either may end with a *, which stands for whatever follows. For each policy
// only the most specific entry counts. The services are compared first, and then the names: one without a * comes before one with it, and
// of two with a * the longer one comes first.
//
// An entry changes one or more of:
//
//   - wait: for how long a call waits, in place of Wait and Retries; none is one attempt;
//   - maxHold: MaxHold; none is no cap. A value below the program's is at least a second, and needs AllowOff, because work that does not
//     heed its context goes on beside the next holder's;
//   - ttl: TTL. It may be raised, to an hour at most, or lowered, to 5 s at least;
//   - shadow: Shadow. true needs AllowOff, because whoever may write settings could do without the lock by it. false does not: it ends a
//     trial, and the lock is taken;
//   - off: work runs without its lock. Only a file may say so, and only to a Locker with AllowOff.
//
// An entry with off or shadow true for a Locker without AllowOff changes nothing, as a whole: it counts as one that is not there, so that
// what is less specific applies. What stood in its place before does not count any more. A Name that itself has a * can be written by what
// is in front of it alone, and a * there.
//
// An entry changes nothing else. So unless the program says AllowOff, no entry lets two calls that exclude each other hold a lock, or work
// under it, at the same time. Entries count for calls of Acquire (and of whatever calls it) that begin while the entry applies. Leases, and
// calls that wait, stay as they are.
//
// If an entry does not fit a policy with its name, that policy stays as the program has it, as a whole. The entry does not fit if Validate
// refuses the policy with the change, or if the change lowers TTL or MaxHold further than said above. These do not fit either: a wait for a
// Leader, a wait other than none for Once, off or shadow true for Do, Once, Resume or a Leader, and a lower maxHold for Do or a Leader. The
// log says so, once for each name and reason.
//
// The end of an entry has come when so much time has passed since it was read as was left then, on the machine's clock or on the one that
// counts while the program runs, whichever is ahead. So it comes in time where the machine was suspended, and setting the clock back does not
// put it off. Redis's clock says at each reading how much is left of an entry there. The
// beginning and the end of an entry are logged, and told to observers as EventSettingBegan and EventSettingEnded, with its author and
// reason.
//
// The option may be given once for each kind of source. If both have an entry for a policy, that of the file counts. The goroutines that
// read the sources begin with New and end with Close. Acquire takes some 20 ns longer.
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

// WithService says which service this is, for WithSettings. The name has 1 to 64 bytes of printable text without blanks, slashes and *. The
// default is the name of the program's file.
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

// AllowOff lets operators have work run without its lock, at the same time as whatever else is at work under the key, here and elsewhere.
// They can do so in three ways:
//
//   - by off in a SettingsFile, for the day on which locks do more harm than good;
//   - by shadow=true in any source, for a lock that refuses too much on its first day;
//   - by a maxHold below the program's, if work does not heed its context.
//
// Do, Once, Resume and Leader ignore off and shadow=true. Do and Leader ignore a lower maxHold, too. Without WithSettings, AllowOff does
// nothing.
//
// Policy.Shadow says what a call with shadow=true gets. A call that is off gets a lease without a lock, as with Policy.FailOpen: its Fence
// is 0, its ValidUntil is the zero time, and it is Valid until its release, or until its MaxHold has passed. Observers are told
// EventSwitchedOff in place of EventAcquired. While off applies, the log says so when it begins and once a minute, at the level of errors: of
// the first 20 entries and of the first 20 Names of each, and how many more there are.
func AllowOff() Option {
	return func(o *options) error {
		o.allowsOff = true
		return nil
	}
}

// A Setting is an entry of a source of WithSettings, as a Locker has read it.
type Setting struct {
	Pattern string    `json:"pattern"`         // service/name, as the source has it
	Change  string    `json:"change"`          // what it says, such as "wait=5s"; empty where it cannot be read. Names and Refused say for whom it counts
	Source  string    `json:"source"`          // file or redis
	Author  string    `json:"author,omitzero"` // who has set it, as they say
	Reason  string    `json:"reason,omitzero"` // why, as they say
	Off     bool      `json:"off,omitzero"`    // work of Names runs without its lock by it. In events: it says off, for what it fits
	Since   time.Time `json:"since,omitzero"`  // since when this process knows it
	Ends    time.Time `json:"ends,omitzero"`   // the zero time: it has no end

	// Names are the Names to which it applies, of those that calls of this process have used so far. A Locker remembers 1,000 Names, and
	// as many besides whose work runs without its lock by a setting. MoreNames says that further ones run so. Refused says to which it does
	// not apply, and why; of many, the first 20. All three are empty in events.
	Names     []string `json:"names,omitempty"`
	MoreNames bool     `json:"more_names,omitzero"`
	Refused   []string `json:"refused,omitempty"`
}

// SettingsStats are numbers about the settings of one Locker at one moment.
type SettingsStats struct {
	// Changed tells, for each field that a setting may have, for how many Names that field is changed now. A Name counts from its first
	// call on.
	Changed map[string]int

	// Off has the Names whose work runs without its lock now, because a setting says so. MoreOff says that there are more of them than a
	// Locker remembers, and that some are not in Off.
	Off     []string
	MoreOff bool

	// Refused is how many settings cannot be read, or do not fit a policy.
	Refused int

	// Ages tells, for each source (file, redis), how long ago it was read last. For one that was never read, it tells how long ago New was
	// called.
	Ages map[string]time.Duration
}
