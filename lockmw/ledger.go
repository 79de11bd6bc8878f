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
	claims sync.WaitGroup // calls of Acquire, Inspect, ForceRelease, Ping and List under way, and what they have left to do

	mu      sync.Mutex
	ended   bool                 // no more claims
	leases  map[*Lease]struct{}  // held or failed open; a lost one is not there
	tenures map[string]*tenure   // by token; a lost one is not there
	joint   jointLeases          // those of leases that others may hold the key beside
	stays   map[string]time.Time // tokens that were released, and keep their key taken until then
	purge   int                  // stays this large are looked through for those that are over
	revoked map[string]time.Time // tokens of no tenure that is known, whose lock was taken by force then
	idle    chan struct{}        // closed with the last lease; nil: nobody waits for that
}

// lockLedger returns the ledger that has key, with its mutex locked.
func (l *Locker) lockLedger(key string) *ledger {
	b := l.ledgers.Part(key)
	b.mu.Lock()
	return b
}

// enter counts a call for key in, unless the Locker is closed: then it returns nil.
// The caller calls Done of the ledger's claims at the end.
func (l *Locker) enter(key string) *ledger {
	b := l.lockLedger(key)
	defer b.mu.Unlock()
	if b.ended {
		return nil
	}
	b.claims.Add(1)
	return b
}

// endClaims has enter refuse all that come from now on.
func (l *Locker) endClaims() {
	for b := range l.ledgers.All() {
		b.mu.Lock()
		b.ended = true
		b.mu.Unlock()
	}
}

func (l *Locker) keep(lease *Lease) {
	b := l.lockLedger(lease.ref.Key)
	defer b.mu.Unlock()
	if b.leases == nil {
		b.leases = make(map[*Lease]struct{})
	}
	b.leases[lease] = struct{}{}
	if lease.tenure() != nil { // others cannot hold the key beside one that runs without it
		b.joint.add(lease)
	}
}

func (l *Locker) forget(lease *Lease) {
	b := l.lockLedger(lease.ref.Key)
	defer b.mu.Unlock()
	delete(b.leases, lease)
	b.joint.remove(lease)
	if len(b.leases) == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// keepTenure has messages about the tenure's token reach it. It reports whether one came
// before, that its lock was taken by force: that may have been an earlier grant to the token.
func (l *Locker) keepTenure(t *tenure) (revoked bool) {
	b := l.lockLedger(t.ref.Key)
	defer b.mu.Unlock()
	if b.tenures == nil {
		b.tenures = make(map[string]*tenure)
	}
	b.tenures[t.ref.Token] = t
	_, revoked = b.revoked[t.ref.Token]
	delete(b.revoked, t.ref.Token)
	return revoked
}

func (l *Locker) forgetTenure(t *tenure) {
	b := l.lockLedger(t.ref.Key)
	defer b.mu.Unlock()
	if b.tenures[t.ref.Token] == t {
		delete(b.tenures, t.ref.Token)
	}
}

// tenureBy returns the tenure of key with that token, or nil.
func (l *Locker) tenureBy(key, token string) *tenure {
	b := l.lockLedger(key)
	defer b.mu.Unlock()
	return b.tenures[token]
}

// tenuresOf returns the tenures of key.
func (l *Locker) tenuresOf(key string) (tenures []*tenure) {
	b := l.lockLedger(key)
	defer b.mu.Unlock()
	for _, t := range b.tenures {
		if t.ref.Key == key {
			tenures = append(tenures, t)
		}
	}
	return tenures
}

// tenureRevoked returns the tenure of key with that token. If there is none, the answer that
// begins it may be on its way: keepTenure tells it then.
func (l *Locker) tenureRevoked(key, token string) *tenure {
	b := l.lockLedger(key)
	defer b.mu.Unlock()
	t := b.tenures[token]
	if t == nil {
		at := time.Now()
		maps.DeleteFunc(b.revoked, func(_ string, then time.Time) bool { return at.Sub(then) > revokedFor })
		if b.revoked == nil {
			b.revoked = make(map[string]time.Time)
		}
		b.revoked[token] = at
	}
	return t
}

// revokedFor is longer than the answer to a command can take.
const revokedFor = 2 * opTimeout

// holds reports whether the Locker has a tenure of ref's key with ref's token.
func (l *Locker) holds(ref store.Ref) bool {
	b := l.lockLedger(ref.Key)
	defer b.mu.Unlock()
	_, ok := b.tenures[ref.Token]
	return ok || time.Now().Before(b.stays[ref.Token])
}

// noteStaying has holds know ref after its release, while its MinHold lasts: a message
// about its grant may come late.
func (l *Locker) noteStaying(ref store.Ref, till time.Time) {
	b := l.lockLedger(ref.Key)
	defer b.mu.Unlock()
	if len(b.stays) >= b.purge { // not each time: there may be many
		at := time.Now()
		maps.DeleteFunc(b.stays, func(_ string, till time.Time) bool { return till.Before(at) })
		b.purge = 2*len(b.stays) + leastPurge
	}
	if b.stays == nil {
		b.stays = make(map[string]time.Time)
	}
	b.stays[ref.Token] = till
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
	b := l.lockLedger(key)
	defer b.mu.Unlock()
	for _, lease := range b.joint[key] {
		return lease
	}
	return nil
}

// allLeases returns the leases of all keys.
func (l *Locker) allLeases() (leases []*Lease) {
	for b := range l.ledgers.All() {
		b.mu.Lock()
		leases = slices.AppendSeq(leases, maps.Keys(b.leases))
		b.mu.Unlock()
	}
	return leases
}

// empty returns a channel that is closed once the ledger has no leases.
func (b *ledger) empty() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle := make(chan struct{})
	if len(b.leases) == 0 {
		close(idle)
	} else {
		b.idle = idle
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
