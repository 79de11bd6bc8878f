package lockmw_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestZeroPolicyIsValid(t *testing.T) {
	if err := (lockmw.Policy{}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestInvalidPolicyNamesFieldAndReason(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy lockmw.Policy
		want   string // the error, behind "lockmw: invalid policy: "
	}{
		{"negative TTL", lockmw.Policy{TTL: -1}, "TTL: -1ns is negative"},
		{"TTL too short", lockmw.Policy{TTL: 99 * time.Millisecond}, "TTL: 99ms is less than 100ms: the margins for clock drift and for telling the holder in time would use it up"},
		{"negative Wait", lockmw.Policy{Wait: -time.Second}, "Wait: -1s is negative"},
		{"negative Retries", lockmw.Policy{Retries: -1}, "Retries: -1 is negative; use lockmw.Forever for no limit"},
		{"negative RetryInterval", lockmw.Policy{RetryInterval: -1}, "RetryInterval: -1ns is negative"},
		{"negative MaxHold", lockmw.Policy{MaxHold: -1}, "MaxHold: -1ns is negative"},
		{"negative MinHold", lockmw.Policy{MinHold: -1}, "MinHold: -1ns is negative"},
		{"MinHold over MaxHold", lockmw.Policy{MinHold: 2 * time.Second, MaxHold: time.Second}, "MinHold: 2s is more than MaxHold (1s)"},
		{"negative RetryAfter", lockmw.Policy{RetryAfter: -1}, "RetryAfter: -1ns is negative"},
		{"longest TTL", lockmw.Policy{TTL: math.MaxInt64}, "TTL: 2562047h47m16.854775807s is more than ten years: Redis could not count the lock's end"},
		{"longest MinHold", lockmw.Policy{MinHold: math.MaxInt64}, "MinHold: 2562047h47m16.854775807s is more than ten years: Redis could not count the lock's end"},
		{"TTL without a unit", lockmw.Policy{TTL: 3000}, "TTL: 3µs: is the unit missing?"},
		{"Wait without a unit", lockmw.Policy{Wait: 2}, "Wait: 2ns: is the unit missing?"},
		{"RetryInterval without a unit", lockmw.Policy{RetryInterval: 200}, "RetryInterval: 200ns: is the unit missing?"},
		{"MaxHold without a unit", lockmw.Policy{MaxHold: 3000}, "MaxHold: 3µs: is the unit missing?"},
		{"MinHold without a unit", lockmw.Policy{MinHold: 999_999}, "MinHold: 999.999µs: is the unit missing?"},
		{"RetryAfter without a unit", lockmw.Policy{RetryAfter: 5}, "RetryAfter: 5ns: is the unit missing?"},
		{"too many Permits", lockmw.Policy{Permits: 1_000_000_001}, "Permits: 1000000001 is more than 1000000000"},
		{"long Name", lockmw.Policy{Name: strings.Repeat("x", 257)}, "Name: 257 bytes are more than 256"},
		{"newline in Name", lockmw.Policy{Name: "a\nb"}, `Name: "a\nb" is not UTF-8, or has control characters: metrics would refuse it as a label`},
		{"a Name that is no UTF-8", lockmw.Policy{Name: "a\xff"}, `Name: "a\xff" is not UTF-8, or has control characters: metrics would refuse it as a label`},
		{"negative Permits", lockmw.Policy{Permits: -1}, "Permits: -1 is negative"},
		{"unknown Mode", lockmw.Policy{Mode: 7}, "Mode: Mode(7) is neither Exclusive nor Shared"},
		{"Shared with Permits", lockmw.Policy{Mode: lockmw.Shared, Permits: 2}, "Mode: Shared with Permits: a lock is either for readers and a writer or a semaphore"},
		{"brace in Prefix", lockmw.Policy{Prefix: "a{b"}, `Prefix: has the character '{'; braces and control characters are not allowed`},
		{"newline in Prefix", lockmw.Policy{Prefix: "a\nb"}, `Prefix: has the character '\n'; braces and control characters are not allowed`},
		{"C1 control in Prefix", lockmw.Policy{Prefix: "é\u0085"}, `Prefix: has the character '\u0085'; braces and control characters are not allowed`},
		{"a Prefix that is no UTF-8", lockmw.Policy{Prefix: "a\xff"}, `Prefix: "a\xff" is not UTF-8: metrics would refuse it as a label; give the policy a Name`},
		{"a verb in Prefix", lockmw.Policy{Prefix: "order:%s:"}, `Prefix: "order:%s:": verbs of package fmt are not filled in; the key stands behind the prefix, and is made by the key function`},
		{"a verb at the end of Prefix", lockmw.Policy{Prefix: "order:%[1]d"}, `Prefix: "order:%[1]d": verbs of package fmt are not filled in; the key stands behind the prefix, and is made by the key function`},
		{"long Prefix", lockmw.Policy{Prefix: strings.Repeat("x", 257)}, "Prefix: 257 bytes are more than 256"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.policy.Validate()
			if !errors.Is(err, lockmw.ErrInvalidPolicy) {
				t.Fatalf("err = %v, want ErrInvalidPolicy", err)
			}
			if want := "lockmw: invalid policy: " + tc.want; err.Error() != want {
				t.Errorf("err = %s\nwant  %s", err, want)
			}
		})
	}
}

// A percent sign that is no verb is a character like others.
func TestAPercentSignInAPrefixIsValid(t *testing.T) {
	for _, prefix := range []string{"%", "100%", "50%:", "a%3A", "100%sure:", "%2F", "rate%/d:"} {
		if err := (lockmw.Policy{Prefix: prefix}).Validate(); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// The least durations that are taken as they are written.
func TestAMillisecondIsValid(t *testing.T) {
	const ms = time.Millisecond
	p := lockmw.Policy{Name: "pay {order}", TTL: 100 * ms, Wait: ms, RetryInterval: ms, MaxHold: ms, MinHold: ms, RetryAfter: ms}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

// The longest durations that are taken do what shorter ones do: no sum of them overflows, so that a lock seems to be free
// at once, or to have no TTL.
func TestTheLongestDurationsServe(t *testing.T) {
	const decade, ever = 10 * 365 * 24 * time.Hour, time.Duration(math.MaxInt64)
	s, ctx := redistest.Shared(t), context.Background()
	for name, p := range map[string]lockmw.Policy{
		"TTL":           {TTL: decade},
		"MinHold":       {MinHold: decade},
		"Wait":          {Wait: ever},
		"Retries":       {Retries: math.MaxInt - 1, RetryInterval: ever},
		"RetryInterval": {Wait: time.Minute, RetryInterval: ever},
		"MaxHold":       {MaxHold: ever},
		"RetryAfter":    {RetryAfter: ever},
		"all":           {TTL: decade, MinHold: decade, Wait: ever, RetryInterval: ever, MaxHold: ever, RetryAfter: ever},
		"a reader's":    {TTL: decade, MinHold: decade, Mode: lockmw.Shared},
		"a permit's":    {TTL: decade, MinHold: decade, Permits: 2},
	} {
		t.Run(name, func(t *testing.T) {
			key, c := redistest.Prefix(t), s.Client(t)
			l, other := testenv.Open(t, c), testenv.Open(t, c)
			_, lease, err := l.AcquireAll(ctx, []string{key, key + "2"}, p)
			if err != nil {
				t.Fatal(err)
			}
			mustRelease(t, lease)
			if err := c.Del(ctx, keysOf(t, c, key)...).Err(); p.MinHold > 0 && err != nil {
				t.Fatal(err)
			}
			lease = mustAcquire(t, l, key, p)
			once := lockmw.Policy{RetryAfter: p.RetryAfter}
			_, _, err = other.Acquire(ctx, key, once)
			var refused *lockmw.AcquireError
			if !errors.As(err, &refused) || !errors.Is(err, lockmw.ErrNotAcquired) || refused.RetryAfter < time.Second {
				t.Errorf("another's call: %v (%+v)", err, refused)
			} else if h := refused.Holder; h != nil && h.Left <= 0 {
				t.Errorf("the holder is said to have %v left", h.Left)
			}
			info, err := other.Inspect(ctx, key)
			if err != nil || len(info.Holders) != 1 || info.Holders[0].Left <= 0 {
				t.Errorf("Inspect = %+v, %v", info, err)
			}
			if left := time.Until(lease.ValidUntil()); left < 20*time.Second || !lease.Valid() || lease.Context().Err() != nil {
				t.Errorf("the lease has %v left: %v", left, lease)
			}
			mustRelease(t, lease)
		})
	}
}

// Another program may have the key for longer than a time.Duration can tell.
func TestAForeignKeyOfAMillionYears(t *testing.T) {
	t.Parallel()
	s, ctx := redistest.Shared(t), context.Background()
	for name, ttl := range map[string]int64{"longer than a Duration": 9_300_000_000_000, "the longest": 9_000_000_000_000_000_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, c := redistest.Prefix(t), s.Client(t)
			l := testenv.Open(t, c)
			if err := c.Do(ctx, "SET", "lock:{"+key+"}", "theirs", "PX", ttl).Err(); err != nil {
				t.Fatal(err)
			}
			info, err := l.Inspect(ctx, key)
			if err != nil || len(info.Holders) != 1 || info.Holders[0].Left < 365*24*time.Hour {
				t.Errorf("Inspect = %+v, %v; want many years left", info, err)
			}
			for _, wait := range []time.Duration{0, 2 * time.Second} {
				var refused *lockmw.AcquireError
				err = answered(func() error {
					_, _, err := l.Acquire(ctx, key, lockmw.Policy{Wait: wait})
					return err
				})
				if !errors.As(err, &refused) || !errors.Is(err, lockmw.ErrNotAcquired) || refused.RetryAfter < time.Second || refused.Attempts > 40 {
					t.Errorf("Acquire with a wait of %v: %v", wait, err)
				}
			}
		})
	}
}

func TestModeHasAName(t *testing.T) {
	if got := lockmw.Exclusive.String() + " " + lockmw.Shared.String(); got != "exclusive shared" {
		t.Errorf("got %q", got)
	}
}
