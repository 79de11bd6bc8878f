package lockmw

import (
	"fmt"
	"time"
)

// What observers are told.

// EventKind says what happened to a lock.
type EventKind uint8

const (
	// EventAcquired: a lease begins.
	EventAcquired EventKind = iota + 1
	// EventContended: others hold the lock, and the caller waits for it.
	EventContended
	// EventRefused: Acquire or Refuse gives no lease, for the reason in Err, which
	// is an *AcquireError.
	EventRefused
	// EventHandedOver: a waiter was told that it has the lock, by whoever made it free: mostly
	// the holder that released it, also another caller that gave up or found the holder gone.
	// EventAcquired follows. A waiter that finds out by asking, as where the message is lost, has
	// EventAcquired alone.
	EventHandedOver
	// EventRenewed: a renewal has come through, and the lock has its full TTL again.
	EventRenewed
	// EventRenewalFailed: a renewal has failed, for the reason in Err. It is tried
	// again for as long as the lease can be trusted.
	EventRenewalFailed
	// EventLost: the lease ended while it was held, for the reason in Err. With Policy.AsyncRelease
	// it may come beside EventReleased, mostly behind it: then Redis did not have the lock any more when it was given back.
	EventLost
	// EventStuck: the lease has been held for ten TTLs, or for ten more since the
	// last such event. With ErrMaxHold in Err, it is held for longer than its policy
	// allows.
	EventStuck
	// EventReleased: the lease was released. Err is nil, or says that Redis did not
	// confirm it. With Policy.AsyncRelease it is nil, and Redis's answer comes later.
	EventReleased
	// EventFailedOpen: the work runs without the lock, because Redis cannot
	// be reached (Err) and the policy allows it.
	EventFailedOpen
	// EventServerWarning: a setting of the server endangers held locks, as Err
	// says. It comes once, beside the first acquire, and is about no key.
	EventServerWarning
	// EventSkipped: others hold the lock of a job that Once was to run, so it is not
	// run here.
	EventSkipped
	// EventAnswered: a call of Do got the answer that another call's work has made, and needs no lock.
	EventAnswered
	// EventAnswerKept: Redis has the answer of work that Do has done. It comes beside EventReleased, or later.
	EventAnswerKept
	// EventAnswerNotKept: work of Do was done, and Redis has not got its answer, for the reason in Err: it is too large, or cannot
	// be encoded, the lock was lost, or Redis has refused it or could not be reached.
	EventAnswerNotKept
	// EventForceReleased: this Locker has taken a lock by force from those who had it, see ForceReleaseAs. Intervention says who
	// wanted it and why. It is about no policy: Name and Prefix are empty. Those who had it have an EventLost.
	EventForceReleased
	// EventResolved: this Locker has noted what became of uncertain work, see ResolveAs. Resolution and Intervention say what, who
	// said so and why. It is about no policy, either.
	EventResolved
	// EventInShadow: a policy with Shadow is used, so that nobody is locked out. It comes with its first call, and with a later one where the
	// last such event is a minute ago. Of the rest of the Event, Name alone is set.
	EventInShadow
	// EventShadowAcquired: without Shadow a call would have had its lock when Waited was over. Queued says that it would have waited for
	// its turn. This and the three kinds below are told in the background, with a context that has no values: the call may be over long since.
	EventShadowAcquired
	// EventShadowRefused: without Shadow a call would have been refused after Waited, for the reason in Err and Reason. No work is
	// refused.
	EventShadowRefused
	// EventShadowOverlap: the work of a call with Shadow ran while other work did from which the lock would have kept it. Of two
	// works one tells of it. With Mixed the other one is not in shadow: it has the lock.
	EventShadowOverlap
	// EventShadowIncomplete: what would have come of a call without Shadow is not known, or not all of it, for the reason in Err.
	EventShadowIncomplete
	// EventSwitchedOff: the work runs without the lock, because a setting says off (AllowOff).
	EventSwitchedOff
	// EventSettingBegan: an entry of a source of WithSettings applies from now on, see Setting. It is about no key.
	EventSettingBegan
	// EventSettingEnded: an entry of a source of WithSettings applies no more, see Setting: its time is over, somebody has taken it
	// away, or another one is in its place. It is about no key.
	EventSettingEnded
	// EventStale: package fence has refused a write, because a later holder of the lock has written: two were at work at the same time, or
	// Redis's clock is behind the one it had (Err, a *fence.StaleError, says by how much).
	EventStale
	// EventUnfenced: package fence has let work through although nothing guards what it writes: its policy is in shadow, or the lease has no fence and
	// fence.Dialect.AllowUnfenced allows that.
	EventUnfenced
)

var eventNames = [...]string{
	EventAcquired:      "acquired",
	EventContended:     "contended",
	EventRefused:       "refused",
	EventHandedOver:    "handed over",
	EventRenewed:       "renewed",
	EventRenewalFailed: "renewal failed",
	EventLost:          "lost",
	EventStuck:         "stuck",
	EventReleased:      "released",
	EventFailedOpen:    "failed open",
	EventServerWarning: "server warning",
	EventSkipped:       "skipped",
	EventAnswered:      "answered",
	EventAnswerKept:    "answer kept",
	EventAnswerNotKept: "answer not kept",
	EventForceReleased: "released by force",
	EventResolved:      "resolved",

	EventInShadow:         "in shadow",
	EventShadowAcquired:   "would be acquired",
	EventShadowRefused:    "would be refused",
	EventShadowOverlap:    "overlap",
	EventShadowIncomplete: "forecast incomplete",
	EventSwitchedOff:      "switched off",
	EventSettingBegan:     "setting began",
	EventSettingEnded:     "setting ended",
	EventStale:            "stale",
	EventUnfenced:         "unfenced",
}

// String returns the kind in words, such as "handed over".
func (k EventKind) String() string {
	if k == 0 || int(k) >= len(eventNames) {
		return fmt.Sprintf("EventKind(%d)", uint8(k))
	}
	return eventNames[k]
}

// An Event tells an observer what happened to one lock. Label metrics by Kind
// and Name, never by Key: keys are without number, and often private.
type Event struct {
	Kind     EventKind
	Name     string        // what the lock is called: the policy's Name, or its Prefix
	Prefix   string        // the policy's, a part of Key
	Key      string        // prefix + key
	Mode     Mode          // the policy's
	Permits  int           // the policy's; 0: it is no semaphore
	Queued   bool          // of an event before the lease began, and of the one that says it begins: the call waited for its turn
	Waited   time.Duration // from the call of Acquire until it had an outcome; of the same events as Queued, 0 otherwise
	Held     time.Duration // since the lease began; 0 before, and for an EventLost beside EventReleased
	Attempts int           // commands that Acquire has sent to Redis, 0 if it needed none; of the same events as Queued, 0 otherwise
	Left     time.Duration // for how long the lease can be trusted without a renewal; of EventContended, what is left of the holder's TTL, or 0 if that is not known
	Err      error         // as the kind says

	// Reason is the code of a refusal, one of the Code constants: what RefusalOf(Err) says.
	// It is empty for other kinds, and where the caller has left.
	Reason string

	// Part says that the event is about one of several keys that one call asks for (AcquireAll, WithLocks), and that another of these
	// has events of the same kinds without it: whoever counts calls and how long they waited or held leaves those with Part out.
	Part bool

	// Holder is who had the lock: of EventRefused what AcquireError.Holder says, of EventContended and of the EventAcquired that follows
	// it who had it when the call began to wait. It is nil where that is not known, and for other kinds. It is for operators: no client is told.
	Holder *Holder

	// Waiting is how many others wait for the lock, of EventRefused, as AcquireError.Waiting says.
	Waiting int

	// Intervention says who took the lock by force and why, of EventForceReleased and of an EventLost with a *RevokedError;
	// and who resolved work and why, of EventResolved.
	Intervention Intervention

	// Resolution is what the work of an EventResolved was resolved as: done, again or discard.
	Resolution string

	// Ticket says, of EventReleased, that the lock was handed on to a ticket (Lease.Ticket); and of the events of a call, that it was
	// Resume.
	Ticket bool

	// Mixed, of the events of a policy with Shadow, says that within the last minute somebody was seen at a lock of that Name
	// who is not in shadow: then what they tell of waits and refusals is too low.
	Mixed bool
	// Setting is the entry that EventSettingBegan and EventSettingEnded are about, and nil for other kinds.
	Setting *Setting
}

// event returns an event about a lock of the policy.
func (p *Policy) event(kind EventKind, key string) Event {
	return Event{Kind: kind, Name: p.Name, Prefix: p.Prefix, Key: key, Mode: p.Mode, Permits: p.Permits}
}
