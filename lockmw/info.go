package lockmw

import (
	"strconv"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// What operators are told.

// A Holder is one who has a lock. In JSON its times are texts such as "1.5s", and what
// is not known is left out.
type Holder struct {
	// Instance names the holder's Locker, see Locker.Instance. It is empty if the
	// holder is a program that does not use lockmw.
	Instance string
	Note     string        // the note of its call, see WithNote
	Age      time.Duration // since the lock was acquired; 0 if that is not known
	Left     time.Duration // what is left of the TTL, if no renewal comes; negative: there is no TTL

	// CoolingDown: it has done its work and released the lock, so it holds nothing any more. Policy.MinHold keeps
	// the key taken for Left.
	CoolingDown bool

	// HandedOn: it has handed the lock on to a ticket (Lease.Ticket), and nobody is at work at the moment.
	// The key stays taken for Left, unless somebody goes on with the work before that (Locker.Resume). Age
	// counts from when this holder acquired the lock.
	HandedOn bool
}

// A Waiter is one who waits for a lock. In JSON Waited is a text such as "1.5s", and what is not known is left out.
type Waiter struct {
	Instance string        // of its Locker, see Locker.Instance
	Note     string        // the note of its call, see WithNote
	Mode     Mode          // the mode that it wants
	Permits  int           // how many the semaphore has of which it wants one; 0: it wants none
	Waited   time.Duration // since it came, by Redis's clock; 0 if that is not known
}

// Info tells who has a lock, and who waits for it. It is for operators and tests. The lock is free if it is
// neither Held nor CoolingDown.
type Info struct {
	Key  string `json:"key"`
	Held bool   `json:"held"` // somebody may be at work under the lock, or has a ticket for it (Holder.HandedOn)

	// CoolingDown: nobody is at work under the lock, and Policy.MinHold keeps the key taken after work that
	// was done. All Holders are CoolingDown then. If it is not known whether anybody is at work, for example
	// after work under a version of lockmw that does not note it, the key is Held.
	CoolingDown bool `json:"cooling_down,omitzero"`

	Mode    Mode     `json:"mode"`             // of those who hold it
	Permits int      `json:"permits,omitzero"` // of a semaphore, the smallest number in use; 0: it is a mutex, or for readers and a writer
	Holders []Holder `json:"holders"`          // whoever has had it longest comes first (on a quorum: by Instance); nil if nobody has it

	// Waiting is how many wait for the lock. Some of those in other processes are counted a second or two
	// late. On a quorum, which has no queue, it counts those in this process alone.
	Waiting int `json:"waiting"`

	// Waiters are those in front of the queue in Redis, 20 at most, in the order in which they came. Of those
	// who wait for a mutex in one Locker, only the first has a place in that queue. For moments not even that
	// one has, while another call of the Locker has the lock. The others rest in their process, and only
	// Waiting counts them. A waiter whose process has died is listed until it is passed over. Waiters is nil
	// if the queue is empty, and on a quorum, which has none.
	Waiters []Waiter `json:"waiters,omitzero"`

	// Answer is what Do has left beside the lock, or nil.
	Answer *KeptAnswer `json:"answer,omitzero"`
}

// A KeptAnswer tells of an answer of Do that is kept, or of work that was begun and has no answer.
type KeptAnswer struct {
	State AnswerState `json:"state"`
	Work  string      `json:"work,omitzero"`  // the id of the work, for Resolve; empty if an answer is kept
	Since time.Time   `json:"since"`          // when the answer was made, or the work began, by Redis's clock
	Until time.Time   `json:"until,omitzero"` // until then whoever comes gets the answer; the zero time for work that has none
	Bytes int         `json:"bytes,omitzero"` // the size of an answer in Redis
}

// An AnswerState is what is known of the answer for a key.
type AnswerState string

// The states of answers. Work that does not ask for Uncertain has no state before its answer is kept.
const (
	AnswerKept       AnswerState = "kept"
	AnswerInProgress AnswerState = "in progress" // the work was begun, and somebody has the lock
	AnswerUncertain  AnswerState = "uncertain"   // the work was begun, and nobody has the lock: see Locker.Resolve
)

// Stats are numbers about one Locker at one moment, for gauges. They need no observer.
type Stats struct {
	// Names has, by the policies' Name (or Prefix), what is held or waited for now, and what is in shadow. A
	// Name that is not there is none of these, but see MoreShadow.
	Names map[string]NameStats

	// MoreShadow says that more Names are in shadow than a Locker remembers, which is 1,024, and that some of
	// them are not in Names.
	MoreShadow bool

	// Connected says that Redis can be reached, as far as is known from what came of the Locker's commands. A
	// Locker that sends no command does not notice an outage. Connected becomes false when nobody listens at
	// Redis's address, or when nothing was answered for 250 ms. It stays false until something is answered.
	// In a Cluster it is false while one of the masters that were asked cannot be reached. On a quorum it is
	// about a majority of the nodes.
	Connected bool

	// Subscribed says that messages of Redis arrive, by which waiters learn of their turn. It is false until
	// the first call that may wait has subscribed, or with SettingsInRedis until New's subscription is made.
	// Without messages, waiters ask Redis again and again, as their policies say. A quorum has no messages.
	Subscribed bool

	// Settings are the numbers about live settings. It is nil for a Locker without WithSettings.
	Settings *SettingsStats
}

// NameStats are the numbers of one Name.
type NameStats struct {
	Held    int // leases that hold a lock; one that runs without it (FailOpen) does not count
	Waiting int // calls that may wait and do not have their lock yet

	// Shadow: a policy of that Name was used with Policy.Shadow within the last 15 minutes, and no setting
	// has ended its trial since.
	Shadow bool

	// Mixed: within the last minute, a call in shadow has seen a holder of its lock who is not in shadow.
	// Then what is told of waits and refusals is too low.
	Mixed bool
}

// answerOf is what is told of what lies beside a lock. held says that somebody has the lock.
func answerOf(k *store.Kept, held bool) *KeptAnswer {
	if k == nil {
		return nil
	}
	a := &KeptAnswer{State: AnswerKept, Since: time.UnixMicro(k.Since), Bytes: k.Bytes}
	switch {
	case k.Work == 0:
		a.Until = time.UnixMicro(k.Until)
		return a
	case held:
		a.State = AnswerInProgress
	default:
		a.State = AnswerUncertain
	}
	a.Work = strconv.FormatInt(k.Work, 10)
	return a
}
