package lockmw

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockmw/kit/internal/store"
)

const (
	defaultTTL           = 30 * time.Second
	defaultRetryInterval = 100 * time.Millisecond

	minTTL = 100 * time.Millisecond // below, the margins for drift and clocks eat the lease

	// longestTTL bounds TTL and MinHold, so that no sum overflows: scripts add them in microseconds to the time of day, in
	// numbers that are exact below 2^53 (the year 2255), and a lease counts as stuck after ten times its TTL, which a
	// time.Duration must be able to tell (292 years).
	longestTTL = 10 * 365 * 24 * time.Hour

	maxPermits   = 1_000_000_000 // Lua writes and reads such a number digit by digit
	maxPrefixLen = 256           // bytes
	maxNameLen   = 256           // bytes
	maxKeyLen    = 512           // bytes
)

// Forever, as Policy.Retries, means that the number of retries has no limit.
const Forever = math.MaxInt

// Mode says who may hold a key at the same time.
type Mode uint8

const (
	// Exclusive: one holder, or as many as Policy.Permits says.
	Exclusive Mode = iota
	// Shared: a reader. At a time the key has either many Shared holders or one Exclusive holder.
	// Readers and writers stand in one queue, so a waiting writer keeps later readers out. The release
	// of a writer lets all readers at the head of the queue in together.
	Shared
)

// String returns "exclusive" or "shared".
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// MarshalText writes the mode as String does, so that JSON has it in words. A mode
// that is neither Exclusive nor Shared is an error.
func (m Mode) MarshalText() ([]byte, error) {
	if m > Shared {
		return nil, fmt.Errorf("lockmw: %v is neither exclusive nor shared", m)
	}
	return []byte(m.String()), nil
}

// UnmarshalText reads what MarshalText writes. Any other text is an error.
func (m *Mode) UnmarshalText(text []byte) error {
	for _, mode := range []Mode{Exclusive, Shared} {
		if string(text) == mode.String() {
			*m = mode
			return nil
		}
	}
	return fmt.Errorf("lockmw: mode %q is neither %q nor %q", text, Exclusive, Shared)
}

// A Policy says how a lock is taken and kept. It is a plain value without state: one Policy serves
// any number of calls, also at the same time.
//
// Waiting ends when the first of these ends: Wait, Retries, the context. With neither Wait nor
// Retries there is one attempt.
type Policy struct {
	// Name is what the lock is called in metrics, logs and errors: at most 256 bytes of UTF-8 without
	// control characters. It is no part of what is locked. Choose one of few, such as "pay": it is a
	// label of metrics, and the Locker remembers for each Name how long its locks are held. Zero means
	// the Prefix.
	Name string

	// Prefix is put before the key, verbatim, and is a part of what is locked. It has at most
	// 256 bytes, no braces or control characters, and no verb of package fmt such as %s, which nobody
	// fills in. Policies exclude each other where prefix and key together are the same. A prefix that
	// is not UTF-8 needs a Name. Zero means no prefix.
	Prefix string

	// TTL is how long Redis keeps the lock without a renewal, from 100 ms to ten years. While the
	// lease is held, it is renewed after about a third of the TTL, so work may take longer than that.
	// If the holder crashes, the lock comes free when the TTL is over. Zero means 30 s.
	TTL time.Duration

	// Wait is the longest time to wait for the lock. Zero means that this field sets no limit.
	Wait time.Duration

	// Retries is how many retry intervals to wait, one after the other. A release hands the lock to
	// the first waiter at once, also in the middle of an interval. Forever means no limit. With
	// Forever, and without Wait and FailOpen, a call waits even while Redis cannot be reached, however
	// long that takes. Zero means that this field sets no limit.
	Retries int

	// RetryInterval is the pause between two retries. Each pause is drawn anew from
	// [interval, 2·interval), so that waiters do not ask at the same moments. Retries find what a
	// release cannot tell a waiter, such as a holder that has crashed. Without Wait and Retries
	// nothing is tried again, so the field does nothing, except in Leader, and in Once on a quorum.
	// Zero means 100 ms.
	RetryInterval time.Duration

	// MaxHold is how long work may go on under the lock. When that has passed, the lease's context
	// ends (cause ErrMaxHold), and renewal stops. The lock is still held until it is released, or what
	// is left of its TTL is over. Zero means no limit.
	MaxHold time.Duration

	// MinHold keeps the key taken for at least this long after it was acquired, even if it is released
	// sooner or its holder crashes (then for at most a TTL longer). It is at most ten years, and at
	// most MaxHold, if there is one. Those who wait get the lock by a retry, within a second after
	// that time, and not by a hand-over.
	//
	// From its release on, the key is not held: it cools down. A caller that finds it so is refused
	// with CodeCooldown, and is not told to ask again. MinHold keeps the same work from being done
	// twice at once or within that time. It does no more than that: it makes nothing idempotent. Zero
	// means that a release frees the key at once.
	MinHold time.Duration

	// MinHoldOnError has MinHold count for failed work, too. Zero means that failed work frees the key
	// with its release, so that it can be tried again at once. A second click is then kept away from
	// what was done, but not from what was refused.
	//
	// Under WithLock, WithLocks, Wrap and Once, work has failed if the function returns an error or
	// panics. Under an HTTP middleware it has failed with a status of 400 or more, an error of the
	// handler, or a panic; under an interceptor with every status but OK. Code that uses Acquire calls
	// Lease.MarkFailed. It is no failure that the client has left: a browser gives up the first
	// request of a double click, and the work may be done by then. A handler that gives up for that
	// reason must answer with such a status, too. Without MinHold the field does nothing.
	MinHoldOnError bool

	// Mode is Exclusive or Shared. Zero means Exclusive.
	Mode Mode

	// Permits makes the lock a semaphore: this many may hold it at the same time, up to 1,000,000,000.
	// If policies name different numbers for one key, the smaller number counts while both are in use,
	// and for up to a TTL after its last holder. A key that is used with Permits here and without
	// there has holders of one kind at a time, in the order of the queue. Permits are refused with
	// Mode Shared, and on a quorum, whose majority does not bound them. Zero means a mutex.
	Permits int

	// Reentrant lets a nested acquire of a key that the context already holds join the outer lease.
	// The nested lease takes no lock of its own and ends with the outer lease. Its release does not
	// release the lock. A reader or a holder of a permit cannot become exclusive in this way
	// (ErrReentrant): it would wait for itself. Zero means that a nested acquire is refused with
	// ErrReentrant.
	Reentrant bool

	// FailOpen runs the work without the lock when Redis cannot be reached, and for no other reason.
	// Redis counts as out of reach in these cases:
	//
	//   - Nobody listens at its address, there is no way there, or its host is unknown, and nothing is
	//     answered over existing connections either.
	//   - A server says LOADING or CLUSTERDOWN (except for a slot that no node serves).
	//   - A server says nothing for at least 250 ms, on any connection, not even to a ping. Each reply
	//     that a new connection needs has 250 ms of its own. The time that a credentials provider or
	//     OnConnect takes does not count. Neither does time in which this process could not run.
	//
	// The first call that finds Redis out of reach runs without the lock within its Wait, and within a
	// second if Wait is longer or zero. (If Wait is below 350 ms and a server answers nothing, it may
	// take 350 ms.) Without Wait and Retries the call runs as soon as its one attempt and a ping have
	// failed. While Redis is known to be away, other calls run within 50 ms. Within a second of
	// Redis's return, locks are taken again.
	//
	// If Redis answers anything else, the call fails with ErrUnavailable, because somebody may hold
	// the lock. Such answers are READONLY, BUSY, NOREPLICAS, MISCONF, TRYAGAIN, OOM, a missing right,
	// and a key that holds other data. The call also fails so when an answer comes too late for the
	// TTL, when a connection breaks, and when the client is set up wrongly. Zero means that no work
	// runs without its lock.
	FailOpen bool

	// AsyncRelease has Release return as soon as the release is on its way to Redis, and not when
	// Redis has answered. So does all that releases for its caller: WithLock, middlewares,
	// interceptors. Each call takes a round trip less, and nobody whose work is done waits while Redis
	// is away.
	//
	// The price is that Release does not know Redis's answer. It returns nil in these cases, too:
	//
	//   - Redis has forgotten the lock. The log and the observers are told (EventLost beside
	//     EventReleased).
	//   - Redis does not answer, or refuses. The log is told, and the release is tried further, as
	//     without AsyncRelease.
	//
	// A loss that a renewal has found is still returned as ErrLost. A program that ends right after
	// its work calls Close first, which waits for all releases, or does without AsyncRelease.
	//
	// AsyncRelease needs Wait or Retries, because a client that goes on at once may meet the release
	// of its own last request. Its new request then waits for that moment, and is not refused. A later
	// call of this Locker for the key comes behind the release. If it wants an exclusive lock of that key
	// alone, without WithReplicaAcks, and the lock is free then, both mostly take one round trip together. Every
	// other call waits for Redis's answer to the release first, and leaves itself a third of its time for
	// its own command, at most 250 ms. A quorum, Close, Leader and
	// WithBufferedResponse always wait for Redis's answer. Zero means that Release returns when Redis has answered.
	AsyncRelease bool

	// Shadow tries the policy on live traffic: a call runs its work at once, without the lock. It
	// never waits, Redis does not delay it, and it keeps nobody from the lock. It is refused only for
	// a mistake of the program. What would have come of it is told by events (EventShadowAcquired,
	// EventShadowRefused, EventShadowOverlap) and metrics: how long it would have waited, for what
	// reason it would have been refused, and whether two were at work at the same time.
	//
	// For this forecast, each call asks for a virtual lock by the same policy, in a namespace beside
	// the locks ("lock:shadow:{…}" for "lock"). Once the virtual lock is granted, it is kept for as
	// long as the work took, even if the call has long returned. The wait for it ends at the deadline
	// of the call's context, and when that context ends before the work does. The end of the context
	// after the work means nothing.
	//
	// For given arrivals, the forecast is within a tenth of what enforcing would show. It does not
	// know that clients retry, or send less because they wait. Holders of the real lock do not make a
	// forecast wait. They are told of as overlaps, and the events of the forecast are Mixed.
	//
	// A lease in shadow says so by Lease.Shadow. Its Fence is 0, and its Release returns nil. Its
	// context ends as always, but the lease is never lost, and Close leaves it alone. A nested Acquire
	// of the same key without Shadow takes the lock. If enforcing would refuse it with ErrReentrant,
	// observers are told. FailOpen does nothing. Once, Leader, Do and a quorum refuse Shadow: what
	// they promise cannot be tried.
	//
	// The log says once a minute that the policy is in shadow, also without WithLogger. A Locker with
	// such policies opens as many connections again. Zero means that the lock is taken.
	Shadow bool

	// RetryAfter is after how long a client is told to ask again that was refused because others hold
	// the lock, or wait for it. Zero means an estimate. The estimate is made from how long locks of
	// this Name were held lately (by this process, and by others as far as this process has seen it),
	// how long this one is held already, and how many wait. It is 1 s while nothing is known, and
	// never less. It is at most what is left of the holder's TTL, and exactly that where the holder
	// seems to have crashed, because its lock was not renewed.
	//
	// With MinHold and without a RetryAfter, a client is told no time if the lock is held, and the
	// estimate only if too many wait. Whoever came back when the work is done would find the key
	// cooling down, or do the work again. A client that finds the key cooling down (CodeCooldown) is
	// never told a time.
	RetryAfter time.Duration
}

// Validate returns nil, or an error that Is ErrInvalidPolicy and names the field and the reason. A
// duration between zero and 1 ms is a mistake in every field: it is most often a number without its
// unit, which Go reads as nanoseconds. A Wait that is computed from a deadline must not be that
// short, either.
func (p Policy) Validate() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"TTL", p.TTL},
		{"Wait", p.Wait},
		{"RetryInterval", p.RetryInterval},
		{"MaxHold", p.MaxHold},
		{"MinHold", p.MinHold},
		{"RetryAfter", p.RetryAfter},
	} {
		switch {
		case d.value < 0:
			return badPolicy(d.field, "%v is negative", d.value)
		case d.value > 0 && d.value < time.Millisecond:
			return badPolicy(d.field, "%v: is the unit missing?", d.value)
		case d.value > longestTTL && (d.field == "TTL" || d.field == "MinHold"):
			return badPolicy(d.field, "%v is more than ten years: Redis could not count the lock's end", d.value)
		}
	}
	switch {
	case len(p.Name) > maxNameLen:
		return badPolicy("Name", "%d bytes are more than %d", len(p.Name), maxNameLen)
	case !utf8.ValidString(p.Name) || strings.ContainsFunc(p.Name, unicode.IsControl):
		return badPolicy("Name", "%q is not UTF-8, or has control characters: metrics would refuse it as a label", p.Name)
	case len(p.Prefix) > maxPrefixLen:
		return badPolicy("Prefix", "%d bytes are more than %d", len(p.Prefix), maxPrefixLen)
	case p.TTL != 0 && p.TTL < minTTL:
		return badPolicy("TTL", "%v is less than %v: the margins for clock drift and for telling the holder in time would use it up", p.TTL, minTTL)
	case p.Retries < 0:
		return badPolicy("Retries", "%d is negative; use lockmw.Forever for no limit", p.Retries)
	case p.Permits < 0:
		return badPolicy("Permits", "%d is negative", p.Permits)
	case p.Permits > maxPermits:
		return badPolicy("Permits", "%d is more than %d", p.Permits, maxPermits)
	case p.Mode > Shared:
		return badPolicy("Mode", "%v is neither Exclusive nor Shared", p.Mode)
	case p.Mode == Shared && p.Permits > 0:
		return badPolicy("Mode", "Shared with Permits: a lock is either for readers and a writer or a semaphore")
	case p.AsyncRelease && !p.waits():
		return badPolicy("AsyncRelease", "needs Wait or Retries: a client that goes on at once may meet its own last request, and would be refused")
	case p.MaxHold > 0 && p.MinHold > p.MaxHold:
		return badPolicy("MinHold", "%v is more than MaxHold (%v)", p.MinHold, p.MaxHold)
	}
	if r, bad := badRune(p.Prefix); bad {
		return badPolicy("Prefix", "has the character %q; braces and control characters are not allowed", r)
	}
	if strings.Contains(p.Prefix, "%") && fmtVerb.MatchString(p.Prefix) {
		return badPolicy("Prefix", "%q: verbs of package fmt are not filled in; the key stands behind the prefix, and is made by the key function", p.Prefix)
	}
	if p.Name == "" && !utf8.ValidString(p.Prefix) {
		return badPolicy("Prefix", "%q is not UTF-8: metrics would refuse it as a label; give the policy a Name", p.Prefix)
	}
	return nil
}

// fmtVerb is what looks as if a value were to be filled in. keyfunc.Parse refuses the same in the
// text of a template.
var fmtVerb = regexp.MustCompile(`%(?:\[\d+\])?[sdvq](?:$|[^0-9A-Za-z])`)

func badPolicy(field, reason string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalidPolicy, field, fmt.Sprintf(reason, args...))
}

// withDefaults returns p with the zero fields that have a default filled in.
func (p Policy) withDefaults() Policy {
	if p.Name == "" {
		p.Name = p.Prefix
	}
	if p.TTL == 0 {
		p.TTL = defaultTTL
	}
	if p.RetryInterval == 0 {
		p.RetryInterval = defaultRetryInterval
	}
	return p
}

// ref says what the policy asks of the store for key.
func (p Policy) ref(key string) store.Ref {
	return store.Ref{
		Key: p.Prefix + key,
		TTL: max(p.TTL, p.MinHold), Least: p.MinHold,
		Kind: store.Kind{Shared: p.Mode == Shared, Permits: p.Permits},
	}
}

// waits reports whether the policy allows more than one attempt.
func (p Policy) waits() bool { return p.Wait > 0 || p.Retries > 0 }

// validateKey checks a key as it was handed to Acquire. Braces would move the
// hash tag that keeps a lock's Redis keys together.
func validateKey(key string) error { return validate(key, maxKeyLen) }

// validateName checks a key with its prefix.
func validateName(key string) error { return validate(key, maxPrefixLen+maxKeyLen) }

func validate(key string, longest int) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty: all work would wait for the same lock", ErrInvalidKey)
	case len(key) > longest:
		return fmt.Errorf("%w: %d bytes are more than %d", ErrInvalidKey, len(key), longest)
	}
	if r, bad := badRune(key); bad {
		return fmt.Errorf("%w: has the character %q; braces and control characters are not allowed", ErrInvalidKey, r)
	}
	return nil
}

func badRune(s string) (rune, bool) {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c == 0x7f || c == '{' || c == '}' {
			return rune(c), true
		}
		if c >= utf8.RuneSelf { // the rest may have control characters beyond ASCII
			for _, r := range s[i:] {
				if unicode.IsControl(r) || r == '{' || r == '}' {
					return r, true
				}
			}
			return 0, false
		}
	}
	return 0, false
}

// opensAfter is how long the server must have been out of reach before a claim
// that waits runs without the lock. It is promised to run within its Wait, or
// within a second where that is shorter, so this is a tenth less.
func (p Policy) opensAfter() time.Duration {
	promised := opTimeout
	if p.Wait > 0 {
		promised = min(promised, p.Wait)
	}
	return promised - promised/10
}
