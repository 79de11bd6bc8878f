// Package measure has what the packages lockprom and lockotel share: which metrics there
// are, and how an event is labelled. They are modules of their own, and an older one may be
// built with a newer package measure: what is exported here stays, and keeps its meaning.
package measure

import (
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockmw/kit/lockmw"
)

// A Metric is one of those that there are. Names, meanings and labels are the same in
// Prometheus and OpenTelemetry. No label has a key in it: keys are without number, and
// often private.
type Metric struct {
	Name, Help string
	Labels     []string
}

// The labels. A name is the policies' Name, or Prefix; a mode is exclusive, shared or permits.
const (
	LabelName    = "name"
	LabelMode    = "mode"
	LabelOutcome = "outcome"
	LabelReason  = "reason"
	LabelMixed   = "mixed"
	LabelField   = "field"
	LabelSource  = "source"
)

// The metrics.
var (
	AcquireDuration = Metric{"lockmw_acquire_duration_seconds", "Time from asking for a lock to having it, or being refused.", []string{LabelName, LabelMode, LabelOutcome}}
	HoldDuration    = Metric{"lockmw_hold_duration_seconds", "Time from having a lock to giving it back, or losing it.", []string{LabelName, LabelMode}}
	Held            = Metric{"lockmw_held", "Locks that are held now.", []string{LabelName}}
	Waiting         = Metric{"lockmw_waiting", "Calls that wait for a lock now.", []string{LabelName}}
	HandOvers       = Metric{"lockmw_handovers_total", "Locks that a waiter was given without asking again, mostly by the holder's release.", []string{LabelName, LabelMode}}
	Refused         = Metric{"lockmw_refused_total", "Calls that got no lock, by the code that the client is told.", []string{LabelName, LabelMode, LabelReason}}
	Lost            = Metric{"lockmw_lost_total", "Locks that were lost while they were held.", []string{LabelName, LabelMode}}
	FailedOpen      = Metric{"lockmw_failed_open_total", "Calls whose work runs without its lock, because Redis cannot be reached.", []string{LabelName, LabelMode}}
	Stuck           = Metric{"lockmw_stuck_total", "Holders that have had a lock for ten TTLs, or longer than their policy allows; counted again every ten TTLs.", []string{LabelName, LabelMode}}
	Stale           = Metric{"lockmw_stale_writes_total", "Writes that were refused, because a later holder of the lock has written (package fence).", []string{LabelName, LabelMode}}
	Unfenced        = Metric{"lockmw_unfenced_writes_total", "Writes that nothing guards, although package fence was asked: of work in shadow, or without a fence and allowed.", []string{LabelName, LabelMode}}
	Answers         = Metric{"lockmw_answers_total", "Work that was done under Do, by whether its answer is kept for others.", []string{LabelName, LabelMode, LabelOutcome}}
	Renewals        = Metric{"lockmw_renewals_total", "Renewals of held locks.", []string{LabelOutcome}}
	Off             = Metric{"lockmw_off", "1 if a live setting has work run without its lock.", []string{LabelName}}
	Settings        = Metric{"lockmw_settings", "Names of policies that live settings change now, by what they change.", []string{LabelField}}
	SettingsRefused = Metric{"lockmw_settings_refused", "Live settings that cannot be read, or do not fit a policy.", nil}
	SettingsAge     = Metric{"lockmw_settings_age_seconds", "Time since live settings were read last.", []string{LabelSource}}

	// Shadow and the four below are of policies with Shadow: what enforcing would have come to.
	Shadow           = Metric{"lockmw_shadow", "1 while a policy runs in shadow, so that nobody is locked out: it was used so within 15 minutes.", []string{LabelName}}
	ShadowDuration   = Metric{"lockmw_shadow_acquire_duration_seconds", "Time from asking for a lock to having it, or being refused, as it would be without Shadow.", []string{LabelName, LabelMode, LabelOutcome}}
	ShadowRefused    = Metric{"lockmw_shadow_refused_total", "Calls in shadow that would have been refused, by the code that the client would have been told.", []string{LabelName, LabelMode, LabelReason}}
	ShadowOverlaps   = Metric{"lockmw_shadow_overlaps_total", "Calls in shadow that were at work beside another one from which the lock would have kept them; mixed: that one is not in shadow.", []string{LabelName, LabelMode, LabelMixed}}
	ShadowIncomplete = Metric{"lockmw_shadow_incomplete_total", "Calls in shadow of which is not known, or not wholly, what they would have come to.", []string{LabelName, LabelMode}}

	RedisUp = Metric{"lockmw_redis_up", "1 if Redis can be reached, as far as is known.", nil}
)

// Buckets are the upper bounds of the durations' histograms, in seconds: from a fast round
// trip to a long job.
var Buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// The outcomes.
const (
	OutcomeAcquired   = "acquired"
	OutcomeRefused    = "refused"
	OutcomeFailedOpen = "failed_open"
	OutcomeOff        = "off"
	OutcomeSkipped    = "skipped"
	OutcomeAnswered   = "answered"
	OutcomeKept       = "kept"
	OutcomeNotKept    = "not_kept"
	OutcomeRenewed    = "renewed"
	OutcomeFailed     = "failed"
)

// Mode is the label of an event's mode.
func Mode(e lockmw.Event) string { return ModeOf(e.Mode, e.Permits) }

// ModeOf says in one word who may hold a lock together: exclusive, shared, or permits, which a semaphore bounds.
func ModeOf(mode lockmw.Mode, permits int) string {
	if permits > 0 {
		return "permits"
	}
	return mode.String()
}

// Reason is the label of a refusal.
func Reason(e lockmw.Event) string {
	if e.Reason == "" {
		return canceled
	}
	return e.Reason
}

// canceled is the reason of a refusal whose caller has left.
const canceled = "CANCELED"

// Reasons are the labels that the refusal of a lock can have, which are there from a name's first call on.
var Reasons = []string{
	lockmw.CodeBusy, lockmw.CodeWaitTimeout, lockmw.CodeCooldown, lockmw.CodeQueueFull, lockmw.CodeBackendUnavailable,
	lockmw.CodeLost, lockmw.CodeKeyInvalid, lockmw.CodeMisuse, lockmw.CodeClosed, canceled,
}

// ReasonsOfDo are those of calls that are answered once for all. They, and the outcomes of answers, are there
// from a name's first event on that is OfDo: most names never have one.
var ReasonsOfDo = []string{
	lockmw.CodeIdempotencyKeyMissing, lockmw.CodeIdempotencyKeyReused, lockmw.CodeIdempotencyInProgress,
	lockmw.CodeIdempotencyUncertain, lockmw.CodeIdempotencyAnswerNotKept,
}

// ReasonsOfShadow are those for which a call in shadow would be refused. That Redis was away makes a forecast incomplete.
var ReasonsOfShadow = []string{
	lockmw.CodeBusy, lockmw.CodeWaitTimeout, lockmw.CodeCooldown, lockmw.CodeQueueFull, lockmw.CodeMisuse, canceled,
}

// OfShadow reports whether an event is one that only policies with Shadow have. What counts these is there from the first such event of a
// name on.
func OfShadow(e lockmw.Event) bool {
	switch e.Kind {
	case lockmw.EventShadowAcquired, lockmw.EventShadowRefused, lockmw.EventShadowOverlap, lockmw.EventShadowIncomplete:
		return true
	default:
		return false
	}
}

// Mixed is the label of an overlap, "true" or "false".
func Mixed(e lockmw.Event) string { return strconv.FormatBool(e.Mixed) }

// OfDo reports whether an event is one that only Do has.
func OfDo(e lockmw.Event) bool {
	switch e.Kind {
	case lockmw.EventAnswered, lockmw.EventAnswerKept, lockmw.EventAnswerNotKept:
		return true
	case lockmw.EventRefused:
		return slices.Contains(ReasonsOfDo, e.Reason)
	default:
		return false
	}
}

// OfNoPolicy reports whether an event is about no lock of a policy, and so is not counted by name.
func OfNoPolicy(e lockmw.Event) bool {
	switch e.Kind {
	case lockmw.EventServerWarning, lockmw.EventForceReleased, lockmw.EventResolved, lockmw.EventSettingBegan, lockmw.EventSettingEnded:
		return true
	default:
		return false
	}
}

// A SettingsSum is what live settings of several Lockers are together. The zero SettingsSum is of none.
type SettingsSum struct {
	Changed map[string]int
	Off     map[string]bool // by label
	Refused int
	Ages    map[string]float64 // the longest, in seconds
}

// Add adds those of a Locker, if it has any. Of a Name that several Lockers change it counts each.
func (s *SettingsSum) Add(of *lockmw.SettingsStats, label func(name string) string) {
	if of == nil {
		return
	}
	if s.Changed == nil {
		s.Changed, s.Off, s.Ages = make(map[string]int), make(map[string]bool), make(map[string]float64)
	}
	for field, n := range of.Changed {
		s.Changed[field] += n
	}
	for _, name := range of.Off {
		s.Off[label(name)] = true
	}
	if of.MoreOff { // of more than 1,000 names, of which 200 have labels
		s.Off[other] = true
	}
	s.Refused += of.Refused
	for source, age := range of.Ages {
		s.Ages[source] = max(s.Ages[source], age.Seconds())
	}
}

// Any reports whether one of the Lockers has live settings.
func (s *SettingsSum) Any() bool { return s.Changed != nil }

// OffOf is 1 if the work of a name runs without its lock, and otherwise 0.
func (s *SettingsSum) OffOf(label string) int64 {
	if s.Off[label] {
		return 1
	}
	return 0
}

// Text is what somebody has written, as UTF-8: Prometheus and OpenTelemetry refuse whatever
// else is in a report of which one text is none.
func Text(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// mostNames is how many names there are labels for. Further names get other.
const mostNames = 200

// other is the label of the names for which there was no room.
const other = "other"

// Names bounds how many names are used as labels, so that a name which is made of data
// cannot make metrics without number. A name that has a label keeps it. The zero Names is empty, and
// safe for concurrent use.
type Names struct {
	known sync.Map // name -> struct{}
	full  atomic.Bool
	mu    sync.Mutex
	n     int
}

// longestName is how many bytes of a name are used, as many as a policy's Name may have.
const longestName = 256

// Label returns name, or "other" if there are too many already. That is logged once. A call
// whose policy is refused has a Name that nobody has checked: what is no UTF-8, which no
// label may be, is replaced, and what is too long is cut.
func (n *Names) Label(name string) string {
	if _, ok := n.known.Load(name); ok {
		return name
	}
	name = Text(name[:min(len(name), longestName)])
	if n.full.Load() {
		return other
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known.Load(name); ok {
		return name
	}
	if n.n < mostNames {
		n.n++
		n.known.Store(name, struct{}{})
		return name
	}
	if n.full.CompareAndSwap(false, true) {
		slog.Warn("lockmw: too many names of policies for metrics; further ones count as \""+other+"\"", "most", mostNames)
	}
	return other
}

// All yields the labels that names have so far.
func (n *Names) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		more := true
		n.known.Range(func(name, _ any) bool {
			more = yield(name.(string)) //nolint:forcetypeassert // only Label stores
			return more
		})
		if more && n.full.Load() {
			yield(other)
		}
	}
}
