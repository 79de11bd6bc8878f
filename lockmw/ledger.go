package lockmw

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A ledger has what a Locker has under way for some of the keys: calls, and what is held.
// Each key belongs to one of the Locker's ledgers.
type ledger struct {
	calls sync.WaitGroup // those of Acquire, Inspect, ForceRelease, Ping and List, and the commands that their callers have left

	mu           sync.Mutex
	ended        bool                   // Close has begun: no more calls are counted in
	leases       map[*Lease]struct{}    // those with a lock of their own, or that failed open; not lost, joined or bundled ones
	tenures      map[string]*tenure     // by token; a lost one is not there
	joint        jointLeases            // those of leases beside which others may hold the key
	stays        map[string]time.Time   // until when a token that was released keeps its key taken (MinHold)
	purge        int                    // the number of stays at which those that are over are removed
	revoked      map[string]revocation  // by token, what was heard a moment ago of locks that were taken by force
	purgeRevoked int                    // the number of revoked at which those that are over are removed
	flights      map[flightName]*flight // of Do, while anybody asks for their answer
	idle         chan struct{}          // closed with the last lease; nil: nobody waits for that
}

// lockLedger returns the ledger that has key, with its mutex locked.
func (l *Locker) lockLedger(key string) *ledger {
	led := l.ledgers.Part(key)
	led.mu.Lock()
	return led
}

// enter counts a call for key in, unless the Locker is closed: then it returns nil.
// The caller calls Done of the ledger's calls at the end.
func (l *Locker) enter(key string) *ledger {
	led := l.lockLedger(key)
	defer led.mu.Unlock()
	if led.ended {
		return nil
	}
	led.calls.Add(1)
	return led
}

// endClaims has enter refuse all that come from now on.
func (l *Locker) endClaims() {
	for led := range l.ledgers.All() {
		led.mu.Lock()
		led.ended = true
		led.mu.Unlock()
	}
}

// keep has the Locker know the lease until forget: Close waits for it, and Stats count it.
func (l *Locker) keep(lease *Lease) {
	led := l.lockLedger(lease.ref.Key)
	defer led.mu.Unlock()
	if led.leases == nil {
		led.leases = make(map[*Lease]struct{})
	}
	led.leases[lease] = struct{}{}
	if lease.tenure() != nil { // others cannot hold the key beside one that runs without it
		led.joint.add(lease)
	}
}

// forget undoes keep. It may be called more than once.
func (l *Locker) forget(lease *Lease) {
	led := l.lockLedger(lease.ref.Key)
	defer led.mu.Unlock()
	delete(led.leases, lease)
	led.joint.remove(lease)
	if len(led.leases) == 0 && led.idle != nil {
		close(led.idle)
		led.idle = nil
	}
}

// keepTenure has messages about the tenure's token reach it. It reports whether one came
// before, that its lock was taken by force: that may have been an earlier grant to the token.
func (l *Locker) keepTenure(t *tenure) (revoked bool) {
	led := l.lockLedger(t.ref.Key)
	defer led.mu.Unlock()
	if led.tenures == nil {
		led.tenures = make(map[string]*tenure)
	}
	led.tenures[t.ref.Token] = t
	return led.revoked[t.ref.Token].taken
}

// forgetTenure undoes keepTenure. It may be called more than once.
func (l *Locker) forgetTenure(t *tenure) {
	led := l.lockLedger(t.ref.Key)
	defer led.mu.Unlock()
	if led.tenures[t.ref.Token] == t {
		delete(led.tenures, t.ref.Token)
	}
}

// tenureBy returns the tenure of key with that token, or nil.
func (l *Locker) tenureBy(key, token string) *tenure {
	led := l.lockLedger(key)
	defer led.mu.Unlock()
	return led.tenures[token]
}

// tenuresOf returns the tenures of key.
func (l *Locker) tenuresOf(key string) (tenures []*tenure) {
	led := l.lockLedger(key)
	defer led.mu.Unlock()
	for _, t := range led.tenures {
		if t.ref.Key == key {
			tenures = append(tenures, t)
		}
	}
	return tenures
}

// A revocation is what was heard of a lock that was taken by force from a token.
type revocation struct {
	at    time.Time
	taken bool               // the message has come that says so
	by    store.Intervention // who wanted it and why, of which another message tells before that one
}

// noteRevocation notes what a message says of a token. It is kept for a moment: of the two messages the one with the reason comes
// first, and both may come before the answer by which the token has the lock.
func (l *Locker) noteRevocation(key, token string, says func(*revocation)) {
	led := l.lockLedger(key)
	defer led.mu.Unlock()
	r := led.revoked[token]
	r.at = time.Now()
	says(&r)
	if len(led.revoked) >= led.purgeRevoked { // not each time: a semaphore may have thousands of holders
		maps.DeleteFunc(led.revoked, func(_ string, other revocation) bool { return r.at.Sub(other.at) > revokedFor })
		led.purgeRevoked = 2*len(led.revoked) + leastPurge
	}
	if led.revoked == nil {
		led.revoked = make(map[string]revocation)
	}
	led.revoked[token] = r
}

// tenureRevoked returns the tenure of key with that token. If there is none, the answer that
// begins it may be on its way: keepTenure tells it then.
func (l *Locker) tenureRevoked(key, token string) *tenure {
	l.noteRevocation(key, token, func(r *revocation) { r.taken = true })
	return l.tenureBy(key, token)
}

// whyNotHeld says why the store does not know the tenure's token as the holder.
func (t *tenure) whyNotHeld() error {
	led := t.locker.lockLedger(t.ref.Key)
	defer led.mu.Unlock()
	if r := led.revoked[t.ref.Token]; r.taken {
		return &RevokedError{Intervention(r.by)}
	}
	return errNotHeld
}

// revokedFor is longer than the answer to a command can take.
const revokedFor = 2 * opTimeout

// holds reports whether the Locker has a tenure of ref's key with ref's token.
func (l *Locker) holds(ref store.Ref) bool {
	led := l.lockLedger(ref.Key)
	defer led.mu.Unlock()
	_, ok := led.tenures[ref.Token]
	return ok || time.Now().Before(led.stays[ref.Token])
}

// noteStaying has holds know ref after its release, while its MinHold lasts: a message
// about its grant may come late.
func (l *Locker) noteStaying(ref store.Ref, till time.Time) {
	led := l.lockLedger(ref.Key)
	defer led.mu.Unlock()
	if len(led.stays) >= led.purge { // not each time: there may be many
		noted := time.Now()
		maps.DeleteFunc(led.stays, func(_ string, till time.Time) bool { return till.Before(noted) })
		led.purge = 2*len(led.stays) + leastPurge
	}
	if led.stays == nil {
		led.stays = make(map[string]time.Time)
	}
	led.stays[ref.Token] = till
}

const leastPurge = 8

// leaseOf returns a lease of this Locker for key, of those that may be seen there: its
// token is among siblings, or it is one of several holders. Otherwise it returns nil.
func (l *Locker) leaseOf(key, siblings string) *Lease {
	for token := range strings.FieldsSeq(siblings) {
		if lease := l.tenureBy(key, token).lease(); lease != nil {
			return lease
		}
	}
	led := l.lockLedger(key)
	defer led.mu.Unlock()
	for _, lease := range led.joint[key] {
		return lease
	}
	return nil
}

// allLeases returns the leases of all keys.
func (l *Locker) allLeases() (leases []*Lease) {
	for led := range l.ledgers.All() {
		led.mu.Lock()
		leases = slices.AppendSeq(leases, maps.Keys(led.leases))
		led.mu.Unlock()
	}
	return leases
}

// empty returns a channel that is closed once the ledger has no leases.
func (led *ledger) empty() <-chan struct{} {
	led.mu.Lock()
	defer led.mu.Unlock()
	idle := make(chan struct{})
	if len(led.leases) == 0 {
		close(idle)
	} else {
		led.idle = idle
	}
	return idle
}

// jointLeases are the leases of one Locker that are shared or hold a permit, by key and
// token. Answers do not tell of them, because there may be many.
type jointLeases map[string]map[string]*Lease

func (j *jointLeases) add(lease *Lease) {
	if lease.ref.Kind == (store.Kind{}) {
		return
	}
	if *j == nil {
		*j = make(jointLeases)
	}
	key := lease.ref.Key
	if (*j)[key] == nil {
		(*j)[key] = make(map[string]*Lease)
	}
	(*j)[key][lease.ref.Token] = lease
}

func (j jointLeases) remove(lease *Lease) {
	if of := j[lease.ref.Key]; of[lease.ref.Token] == lease { // one that has joined another has that one's token
		delete(of, lease.ref.Token)
		if len(of) == 0 {
			delete(j, lease.ref.Key)
		}
	}
}
