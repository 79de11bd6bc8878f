package combos

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Combination is one value of each dimension. It is drawn from a seed alone, so
// that a round can be run again: see Draw and Token.
type Combination struct {
	Seed  uint64 `json:"seed"`
	Group string `json:"group"` // which servers a round needs: Single, Cluster or Sentinel

	Server   string        `json:"server"`   // the redis-server's name in Servers
	Site     string        `json:"site"`     // what kind of client reaches it, and how
	Trait    string        `json:"trait"`    // what is particular about the client
	Fault    string        `json:"fault"`    // its name in faults
	Length   string        `json:"length"`   // of the fault: hiccup, brief or long; empty: it has none
	Load     int           `json:"load"`     // callers in one burst
	Shape    string        `json:"shape"`    // whether the callers' contexts end, and how
	Keys     string        `json:"keys"`     // which keys the callers want
	Form     string        `json:"form"`     // what kind of lock
	Patience string        `json:"patience"` // how long the policy waits
	FailOpen bool          `json:"failOpen"`
	Async    bool          `json:"async"`   // releases are not awaited, where calls may wait
	HandsOn  bool          `json:"handsOn"` // some callers hand their lock on, and go on by the ticket
	TTL      time.Duration `json:"ttl"`
	Distance time.Duration `json:"distance"` // of a round trip
	Observer string        `json:"observer"`
	Logger   string        `json:"logger"`
	Closes   bool          `json:"closes"` // the Locker is closed while the fault lasts
	Times    int           `json:"times"`  // how often the fault is done; 0: as often as fits
}

// The groups of servers that a round needs.
const (
	Single   = "single"
	Cluster  = "cluster"
	Sentinel = "sentinel"
)

// Groups lists them.
var Groups = []string{Single, Cluster, Sentinel}

// Sites of a combination: the kinds of servers, and of clients for them.
const (
	plainSite    = "single"
	tlsSite      = "TLS"
	clusterSite  = "Cluster"
	nodeSite     = "one node of a Cluster"
	sentinelSite = "Sentinel"
)

// Traits of the user's client.
const (
	noTrait      = "defaults"
	poolOfOne    = "pool of one"
	resp2        = "RESP2"
	resp3        = "RESP3"
	hooked       = "a hook"
	slowDialer   = "slow dialer"
	timeoutByCtx = "ContextTimeoutEnabled"
)

// Lengths of faults.
const (
	hiccup = "hiccup" // shorter than the shortest time that any caller gives Redis for an answer
	brief  = "brief"
	long   = "long" // longer than the short TTL, and than it takes to know that Redis is away
)

// Shapes of the load.
const (
	stays     = "stays"
	cancelled = "cancelled at once"
	deadlines = "short deadlines"
)

// Keys that callers want.
const (
	ownKeys  = "own keys"
	oneKey   = "one key"
	takenKey = "a taken key" // somebody holds it all along
)

// Forms of locks.
const (
	mutex       = "mutex"
	all3        = "AcquireAll of 3"
	all16       = "AcquireAll of 16"
	minHold     = "MinHold"
	fewPermits  = "Permits 3"
	manyPermits = "Permits without end"
	shared      = "Shared"
)

// Patience of a policy.
const (
	oneAttempt = "one attempt"
	tiny       = "Wait 20ms"
	small      = "Wait 100ms"
	second     = "Wait 1s"
	twoSeconds = "Wait 2s"
	forever    = "Forever"
)

// How observers and loggers behave.
const (
	quiet     = "none"
	slow      = "slow"
	blocked   = "blocked"
	panicking = "panicking"
)

const (
	shortTTL = time.Second
	longTTL  = 30 * time.Second
	crowd    = 3000
)

// Draw returns the combination of a seed, for a group of servers.
func Draw(group, server string, seed uint64) Combination {
	rnd := rand.New(rand.NewPCG(seed, 1))
	c := Combination{Seed: seed, Group: group, Server: server}
	switch group {
	case Cluster:
		c.Site = pick(rnd, clusterSite, clusterSite, clusterSite, nodeSite)
	case Sentinel:
		c.Site = sentinelSite
	default:
		c.Site = pick(rnd, plainSite, plainSite, plainSite, tlsSite, tlsSite)
	}
	f := pick(rnd, faultsOf(c.Site)...)
	c.Fault, c.Length = f.name, pick(rnd, f.lengths...)
	c.Trait = pick(rnd, noTrait, noTrait, poolOfOne, resp2, resp3, hooked, slowDialer, timeoutByCtx)
	c.Load = pick(rnd, 1, 20, 20, 20, 20, crowd)
	c.Shape = pick(rnd, stays, stays, stays, cancelled, deadlines)
	c.Keys = pick(rnd, ownKeys, oneKey, takenKey)
	c.Form = pick(rnd, mutex, mutex, all3, all3, all16, minHold, fewPermits, manyPermits, shared)
	c.Patience = pick(rnd, oneAttempt, oneAttempt, tiny, tiny, small, second, twoSeconds, forever)
	c.FailOpen = rnd.IntN(2) == 0
	c.TTL = pick(rnd, shortTTL, longTTL)
	c.Distance = pick(rnd, 0, 0, 5*time.Millisecond, 40*time.Millisecond)
	c.Observer = pick(rnd, quiet, quiet, quiet, slow, panicking)
	c.Logger = pick(rnd, quiet, quiet, quiet, quiet, blocked, panicking)
	c.Closes = c.Length != "" && rnd.IntN(8) == 0
	c.Async = c.Patience != oneAttempt && rnd.IntN(3) == 0
	c.HandsOn = rnd.IntN(2) == 0
	return c.possible()
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

// possible changes what a round cannot do, or not in its time.
func (c Combination) possible() Combination {
	if c.Load == crowd && c.Form == all16 {
		c.Form = all3 // 48,000 locks would measure the machine
	}
	if c.Load == crowd && c.Keys == oneKey && c.Patience != oneAttempt {
		c.Patience = small // one after the other would take minutes
	}
	if c.Keys == takenKey && (c.Patience == forever || c.Patience == twoSeconds) {
		c.Patience = second // nobody can get it
	}
	if c.Keys == takenKey && (c.Form == manyPermits || c.Form == fewPermits) {
		c.Form = mutex // there is no holder that keeps all others out
	}
	if c.Form == minHold && c.Keys == oneKey && c.Patience == forever {
		c.Patience = second
	}
	if c.Fault == frozenMaster {
		c.Form, c.Keys, c.Shape, c.Closes, c.Load = mutex, oneKey, stays, false, min(c.Load, 20)
		c.Patience = pick(rand.New(rand.NewPCG(c.Seed, 2)), tiny, small)
		c.FailOpen, c.TTL = false, shortTTL
	}
	if c.Form != mutex || c.Keys == takenKey || c.Async || c.Load == crowd || c.Site == nodeSite || c.Closes {
		c.HandsOn = false
	}
	if c.Fault == migration {
		c.TTL, c.Closes, c.Load = shortTTL, false, min(c.Load, 20)
	}
	return c
}

// heavy says that a round takes many seconds, or much of the machine. A short run
// leaves it out.
func (c Combination) heavy() bool {
	return c.Load == crowd || c.Length == long || c.Logger == blocked || c.Closes || c.Fault == frozenMaster
}

// Name tells two combinations apart.
func (c Combination) Name() string {
	parts := []string{c.Server, c.Site, c.Trait, strings.TrimSpace(c.Length + " " + c.Fault), fmt.Sprintf("%d callers", c.Load), c.Shape, c.Keys,
		c.Form, c.Patience, "TTL " + c.TTL.String(), "distance " + c.Distance.String(), "observer " + c.Observer, "logger " + c.Logger}
	if c.FailOpen {
		parts = append(parts, "FailOpen")
	}
	if c.Async {
		parts = append(parts, "AsyncRelease")
	}
	if c.HandsOn {
		parts = append(parts, "tickets")
	}
	if c.Closes {
		parts = append(parts, "closed meanwhile")
	}
	return strings.Join(parts, ", ")
}

// Values returns the value of each dimension but the fault's.
func (c Combination) Values() map[string]string {
	return map[string]string{
		"server": c.Server, "client": c.Site, "trait": c.Trait, "callers": strconv.Itoa(c.Load), "shape": c.Shape, "keys": c.Keys,
		"form": c.Form, "patience": c.Patience, "FailOpen": strconv.FormatBool(c.FailOpen), "AsyncRelease": strconv.FormatBool(c.Async), "tickets": strconv.FormatBool(c.HandsOn), "TTL": c.TTL.String(),
		"distance": c.Distance.String(), "observer": c.Observer, "logger": c.Logger,
	}
}

// Token names a round so that it can be run alone, see RoundEnv.
func (c Combination) Token() string { return fmt.Sprintf("%s/%s/%d", c.Group, c.Server, c.Seed) }

// FromToken returns the combination that Token named, or that was written as JSON
// by hand.
func FromToken(token string) (c Combination, err error) {
	if strings.HasPrefix(token, "{") {
		return c, json.Unmarshal([]byte(token), &c)
	}
	parts := strings.Split(token, "/")
	if len(parts) != 3 {
		return Combination{}, fmt.Errorf("%q is not group/server/seed", token)
	}
	seed, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil {
		return Combination{}, err
	}
	return Draw(parts[0], parts[1], seed), nil
}

// wait returns the policy's budget: 0 for one attempt, and a negative one where
// there is none.
func (c Combination) wait() time.Duration {
	switch c.Patience {
	case tiny:
		return 20 * time.Millisecond
	case small:
		return 100 * time.Millisecond
	case second:
		return time.Second
	case twoSeconds:
		return 2 * time.Second
	case forever:
		return -1
	}
	return 0
}

// lasts draws how long the fault lasts, within its Length.
func (c Combination) lasts(rnd *rand.Rand) time.Duration {
	between := func(least, most int) time.Duration {
		return time.Duration(least+rnd.IntN(most-least+1)) * time.Millisecond
	}
	switch c.Length {
	case hiccup:
		return between(60, 140)
	case brief:
		return between(400, 700)
	case long:
		return between(2100, 2400)
	}
	return 0
}

// permits returns how many may hold a key together; 0: the form has no permits.
func (c Combination) permits() int {
	switch c.Form {
	case fewPermits:
		return 3
	case manyPermits:
		if c.Seed%2 == 0 {
			return math.MaxInt
		}
		return 1e14
	}
	return 0
}

// keysOf returns how many keys a call takes.
func (c Combination) keysOf() int {
	switch c.Form {
	case all3:
		return 3
	case all16:
		return 16
	}
	return 1
}
