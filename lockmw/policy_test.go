package lockmw_test

import (
	"errors"
	"strings"
	"testing"
	"time"

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

// The least durations that are taken as they are written.
func TestAMillisecondIsValid(t *testing.T) {
	const ms = time.Millisecond
	p := lockmw.Policy{Name: "pay {order}", TTL: 100 * ms, Wait: ms, RetryInterval: ms, MaxHold: ms, MinHold: ms, RetryAfter: ms}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

func TestModeHasAName(t *testing.T) {
	if got := lockmw.Exclusive.String() + " " + lockmw.Shared.String(); got != "exclusive shared" {
		t.Errorf("got %q", got)
	}
}
