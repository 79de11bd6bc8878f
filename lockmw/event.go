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
	// EventRefused: Acquire gave no lease, or Refuse was called, for the reason in Err, which is an *AcquireError.
	EventRefused
	// EventHandedOver: whoever made the lock free has told a waiter that it has the lock. Mostly that is the holder that released
	// the lock. It may also be another caller, which gave up or found the holder gone. EventAcquired follows. A waiter that finds
	// out by asking, for example because the message was lost, has EventAcquired alone.
	EventHandedOver
	// EventRenewed: a renewal has come through, and the lock has its full TTL again.
	EventRenewed
	// EventRenewalFailed: a renewal has failed, for the reason in Err. The renewal is tried again for as long as the lease can be
	// trusted.
	EventRenewalFailed
	// EventLost: the lease ended while it was held, for the reason in Err. With Policy.AsyncRelease it may come as well as
	// EventReleased, mostly after it. Then Redis no longer had the lock when it was given back.
	EventLost
	// EventStuck: the lease has been held for ten TTLs, or for ten more since the last such event. With ErrMaxHold in Err, it has
	// been held for longer than its policy allows.
	EventStuck
	// EventReleased: the lease was released. Err is nil, or says that Redis did not
	// confirm it. With Policy.AsyncRelease it is nil, and Redis's answer comes later.
	EventReleased
	// EventFailedOpen: the work runs without the lock, because Redis cannot
	// be reached (Err) and the policy allows it.
	EventFailedOpen
	// EventServerWarning: a setting of the server endangers held locks, as Err says. It comes once, with the first acquire, and
	// is about no key.
	EventServerWarning
	// EventSkipped: others hold the lock of a job that Once was to run, or have just done the job (CodeCooldown). So it is not
	// run here.
	EventSkipped
	// EventAnswered: a call of Do got the answer that another call's work has made, and needs no lock.
	EventAnswered
	// EventAnswerKept: Redis has the answer of work that Do has done. The event comes with EventReleased, or later.
	EventAnswerKept
	// EventAnswerNotKept: work of Do was done, but Redis does not have its answer, for the reason in Err. The answer is too large
	// or cannot be encoded, the lock was lost, or Redis has refused the answer or could not be reached.
	EventAnswerNotKept
	// EventForceReleased: this Locker has taken a lock by force from those who had it, see ForceReleaseAs. Intervention says who
	// wanted it and why. The event is about no policy: Name and Prefix are empty. Those who had the lock have an EventLost.
	EventForceReleased
	// EventResolved: this Locker has noted what became of uncertain work, see ResolveAs. Resolution says what became of it, and
	// Intervention who said so and why. This event is about no policy, either.
	EventResolved
	// EventInShadow: a policy with Shadow is in use, so nobody is locked out. The event comes with the first call of a Name, and
	// with a later call if the last such event was at least a minute ago. If more than 1,024 Names are in shadow at the same time, the
	// further ones share one such event a minute, with the Name of one of them. Of the other fields of Event only Name is set.
	EventInShadow
	// EventShadowAcquired: without Shadow, a call would have had its lock after Waited. Queued says that it would have waited for
	// its turn. This and the next three kinds are told in the background, with a context that has no values: the call may have
	// ended long before.
	EventShadowAcquired
	// EventShadowRefused: without Shadow, a call would have been refused after Waited, for the reason in Err and Reason. No work
	// was really refused.
	EventShadowRefused
	// EventShadowOverlap: the work of a call with Shadow ran at the same time as other work, and the lock would have kept the two
	// apart. Only one of the two tells of it. With Mixed, the other one is not in shadow: it has the lock.
	EventShadowOverlap
	// EventShadowIncomplete: what would have come of a call without Shadow is not known, or not all of it is, for the reason in
	// Err.
	EventShadowIncomplete
	// EventSwitchedOff: the work runs without the lock, because a setting says off (AllowOff).
	EventSwitchedOff
	// EventSettingBegan: an entry of a source of WithSettings applies from now on. Event.Setting has the entry. The event is
	// about no key.
	EventSettingBegan
	// EventSettingEnded: an entry of a source of WithSettings no longer applies. Its time is over, somebody has taken it away, or
	// another entry is in its place. Event.Setting has the entry that has ended. The event is about no key.
	EventSettingEnded
	// EventStale: package fence has refused a write, because a later holder of the lock has written. Either two were at work at
	// the same time, or Redis's clock is behind the one it had. Err, a *fence.StaleError, says by how much the lease is behind.
	EventStale
	// EventUnfenced: package fence has let work through although nothing guards what it writes. Either the policy is in shadow,
	// or the lease has no fence and fence.Dialect.AllowUnfenced allows that.
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

// An Event tells an observer what happened to one lock. Label metrics by Kind and Name, never by Key: the number of keys has no
// limit, and keys are often private.
type Event struct {
	Kind     EventKind
	Name     string        // what the lock is called: the policy's Name, or its Prefix
	Prefix   string        // the policy's, a part of Key
	Key      string        // prefix + key
	Mode     Mode          // the policy's
	Permits  int           // the policy's; 0: it is no semaphore
	Queued   bool          // the call waited for its turn; of events up to the one that says that the lease begins
	Waited   time.Duration // from the call of Acquire until this event; of the same events as Queued, otherwise 0
	Held     time.Duration // since the lease began; 0 before that, and for an EventLost that comes as well as EventReleased
	Attempts int           // how many commands Acquire has sent to Redis; of the same events as Queued, otherwise 0
	Left     time.Duration // for how long the lease can be trusted without a renewal; of EventContended, what is left of the holder's TTL, 0 if not known
	Err      error         // as the kind says

	// Reason is the code of a refusal, one of the Code constants: what RefusalOf(Err) says. It is empty for other kinds, and if
	// the caller has left.
	Reason string

	// Part says that the event is about one of several keys that one call asks for (AcquireAll, WithLocks), and that another one
	// of these keys has events of the same kinds without Part. So leave out events with Part if you count calls, or add up how
	// long they waited or held.
	Part bool

	// Holder is who had the lock. For EventRefused and EventSkipped it is as AcquireError.Holder says. For EventContended, and
	// for the EventHandedOver and EventAcquired that follow, it is who had the lock when the call began to wait. It is nil if
	// that is not known, and for other kinds. It is for operators: no client is told.
	Holder *Holder

	// Waiting is how many others wait for the lock, as AcquireError.Waiting says. It is set for EventRefused and EventSkipped.
	Waiting int

	// Intervention says who took the lock by force and why, for EventForceReleased and for an EventLost with a *RevokedError. For
	// EventResolved it says who resolved the work and why.
	Intervention Intervention

	// Resolution is what the work of an EventResolved was resolved as: done, again or discard.
	Resolution string

	// Ticket says of EventReleased that the lock was handed on to a ticket (Lease.Ticket). Of the events of a call it says that
	// the call was Resume.
	Ticket bool

	// Mixed belongs to the events of a policy with Shadow. It says that within the last minute somebody was seen at a lock of
	// that Name who is not in shadow. Then what the events tell of waits and refusals is too low. For EventShadowOverlap, see
	// there.
	Mixed bool
	// Setting is the entry that an EventSettingBegan or EventSettingEnded is about. It is nil for other kinds.
	Setting *Setting
}

// event returns an event about a lock of the policy.
func (p *Policy) event(kind EventKind, key string) Event {
	return Event{Kind: kind, Name: p.Name, Prefix: p.Prefix, Key: key, Mode: p.Mode, Permits: p.Permits}
}
