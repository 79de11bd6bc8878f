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
	// Shared: a reader. Many Shared holders, or one Exclusive, have the key at a
	// time. Readers and writers stand in one queue: a waiting writer keeps later
	// readers out, and a writer's release lets all readers at the head of the queue
	// in together.
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

// A Policy says how a lock is taken and kept. It is a plain value without
// state: one Policy serves any number of calls, at the same time too.
//
// Waiting ends at whichever of Wait, Retries and the context ends first. With
// neither Wait nor Retries there is one attempt.
type Policy struct {
	// Name is what the lock is called in metrics, logs and errors: at most 256
	// bytes of UTF-8 without control characters. It is no part of what is locked.
	// Choose one of few, such as "pay": metrics are labelled by it, and what is
	// known of how long locks are held is kept for each. Zero means the Prefix.
	Name string

	// Prefix is put before the key, verbatim: at most 256 bytes, no braces or
	// control characters, and no verb of package fmt such as %s, which nobody fills in. It is a part of what is locked: policies exclude each
	// other where prefix and key are the same. One that is no UTF-8 needs a Name.
	// Zero means no prefix.
	Prefix string

	// TTL is how long Redis keeps the lock without a renewal, from 100 ms to ten years.
	// While the lease is held it is renewed after about a third of that, so work
	// may take longer than the TTL. The lock of a holder that has crashed comes
	// free when the TTL is over. Zero means 30 s.
	TTL time.Duration

	// Wait is the longest time to wait for the lock. Zero means not limited
	// by this field.
	Wait time.Duration

	// Retries is for how many retry intervals to wait, one after the other. A
	// release hands the lock to the first waiter at once, in the middle of an
	// interval. Forever means no limit; without Wait and FailOpen the call then also
	// waits while Redis cannot be reached, however long that takes. Zero means not
	// limited by this field.
	Retries int

	// RetryInterval is the pause between two retries. Each is drawn anew from
	// [interval, 2·interval), so that waiters do not ask at the same moments. Retries
	// find what a release cannot tell a waiter, such as a holder that has crashed.
	// Without Wait and Retries nothing is tried again, so it does nothing then, but in
	// Leader, and in Once on a quorum. Zero means 100 ms.
	RetryInterval time.Duration

	// MaxHold ends the lease's context (cause ErrMaxHold) and its renewal after this
	// long. The lock is held until it is released, or what is left of its TTL is
	// over. Zero means no cap.
	MaxHold time.Duration

	// MinHold keeps the key taken at least this long after it was acquired, even
	// when it is released sooner or its holder crashes (then for at most a TTL
	// longer). It is at most ten years, and at most MaxHold, where there is one. Those who wait get the lock
	// by a retry, within a second after that time, and not by a hand-over. From its release on
	// the key is not held, it cools down: who finds it so is refused with CodeCooldown, and is not
	// told to ask again. It keeps the same work from being done twice at once or within that time, and
	// no longer: it makes nothing idempotent. Zero means that a release frees the key at once.
	MinHold time.Duration

	// MinHoldOnError has MinHold count for work that has failed, too. Zero means that such
	// work frees the key with its release, so that it can be tried again at once: the key
	// keeps a second click away from what was done, and not from what was refused. WithLock,
	// Wrap and Once take an error and a panic of the function for that, the HTTP middlewares
	// a status of 400 or more, an error of the handler and a panic, the interceptors every
	// status but OK. Code that uses Acquire says so by Lease.MarkFailed. That the client has left
	// is no failure: a browser gives up the first request of a double click, and the work may be
	// done by then. A handler that gives up for that reason must answer with such a status, too.
	// Without MinHold it does nothing.
	MinHoldOnError bool

	// Mode is Exclusive or Shared. Zero means Exclusive.
	Mode Mode

	// Permits makes the lock a semaphore: this many may hold it at the same time, up
	// to 1,000,000,000. Where policies name different numbers for one key, the smaller
	// one counts while both are in use, and for up to a TTL after its last holder. A
	// key that is used with Permits here and without there has holders of one kind at
	// a time, in the order of the queue. Permits are refused beside Mode Shared, and
	// on a quorum, whose majority does not bound them. Zero means a mutex.
	Permits int

	// Reentrant lets a nested acquire of a key that the context already holds
	// join that lease: it takes no lock of its own, ends with the outer lease, and
	// its release does not release the lock. A reader or a holder of a permit cannot
	// become exclusive that way (ErrReentrant): it would wait for itself. Zero means
	// that a nested acquire is refused with ErrReentrant.
	Reentrant bool

	// FailOpen runs the work without the lock when Redis cannot be reached, and for no
	// other reason. That is the case when nobody listens at its address, there is no
	// way there or its host is unknown, and nothing is answered over connections that
	// are there, either; when a server says LOADING or CLUSTERDOWN (except for a slot
	// that no node serves); and when a server says nothing for at least 250 ms, on any
	// connection, not even to a ping. The time that a credentials provider or OnConnect
	// takes does not count, each reply that a new connection needs has 250 ms of its
	// own, and time in which this process could not run is left out.
	//
	// The first call that finds Redis out of reach runs without the lock within
	// its Wait, and within a second where Wait is longer or zero (within 350 ms
	// where Wait is below that and a server answers nothing); without Wait and
	// Retries it does so as soon as its one attempt has failed and a ping has, too. While Redis is
	// known to be away, other calls run within 50 ms. Within a second of Redis's
	// return locks are taken again.
	//
	// Where Redis answers anything else the call fails with ErrUnavailable, because
	// somebody may hold the lock: READONLY, BUSY, NOREPLICAS, MISCONF, TRYAGAIN, OOM, a
	// missing right, a key that holds other data. So it does when an answer comes too
	// late for the TTL, when a connection breaks, and when the client is set up
	// wrongly. Zero means that no work runs without its lock.
	FailOpen bool

	// AsyncRelease has Release, and all that releases for its caller (WithLock, middlewares, interceptors), go on as soon
	// as the release is on its way to Redis, and not when Redis has answered: a round trip less for each call, and
	// nobody whose work is done waits while Redis is away. What is lost is Redis's word. Release returns nil
	// although Redis may have forgotten the lock, of which the log is told and the observers (EventLost beside
	// EventReleased), or may not answer, or refuse, of which the log is told. Then the release is tried further, as
	// ever. A loss that a renewal has found is told as ever: ErrLost. A program that ends right after its work calls
	// Close first, which waits for all releases, or does without.
	//
	// It needs Wait or Retries, because a client that goes on at once may meet the release of its own last request: it
	// waits that moment, and is not refused. A later call of this Locker for the key waits for Redis's answer to the
	// release, for as long as its own time lasts; so one key that is taken again and again is taken no faster. A quorum,
	// Close, Leader and WithBufferedResponse confirm always. Zero means that Release returns when Redis has answered.
	AsyncRelease bool

	// Shadow tries the policy on live traffic: a call runs its work at once, without the lock. It never waits and is never refused but
	// for a mistake of the program, nothing of Redis is in its way, and nobody is kept from the lock by it. What would have come of
	// it is told as events (EventShadowAcquired, EventShadowRefused, EventShadowOverlap) and metrics: how long it would have waited, for
	// what reason it would have been refused, and whether two were at work at the same time.
	//
	// For that, a call has a claim of its own in a namespace beside the locks ("lock:shadow:{…}" for "lock"), by the same policy. Once granted, it keeps its
	// virtual lock for as long as the work took, also when the call has long returned. It gives up its wait at the deadline of
	// the call's context, and when that context ends before the work does; how it ends after that means nothing. So for given
	// arrivals the forecast is what enforcing would show, within some per cent. It does not know of clients that retry, or that
	// send less because they wait. Holders of the real lock do not make a forecast wait: they are told of as overlaps, and forecasts
	// are Mixed.
	//
	// The lease says so by Lease.Shadow. Its Fence is 0 and its Release returns nil. Its context ends as always, but it is never lost,
	// and Close leaves it alone. A nested Acquire of the same key without Shadow takes the lock; that it would be ErrReentrant is
	// told. FailOpen does nothing. Once, Leader, Do and a quorum refuse Shadow: what they promise cannot be tried.
	//
	// The log says once a minute that the policy is in shadow, also without WithLogger. A Locker with such policies opens as many connections
	// again. Zero means that the lock is taken.
	Shadow bool

	// RetryAfter is after how long a client is told to ask again that is refused
	// because others hold the lock, or wait for it. Zero means an estimate: from how
	// long locks of this Name were held lately (by this process, and by others as far
	// as this process has seen it), how long this one is held already and how many
	// wait. The estimate is at least 1 s, which it is while nothing is known, and at
	// most what is left of the holder's TTL, which it is where the holder seems to
	// have crashed, because its lock was not renewed. With MinHold a client is told no time, unless it stands here: MinHold keeps the same
	// from being done again, and whoever came back when the work is done would find the key cooling down (CodeCooldown), or do it again.
	RetryAfter time.Duration
}

// Validate returns nil or an ErrInvalidPolicy that names the field and the
// reason. A duration between zero and 1 ms is a mistake in every field: it is most
// often a number without its unit, which Go reads as nanoseconds. So a Wait that is
// computed from a deadline must not be less than 1 ms, either.
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
