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
		want   string // in the error
	}{
		{"negative TTL", lockmw.Policy{TTL: -1}, "TTL: -1ns is negative"},
		{"TTL too short", lockmw.Policy{TTL: 99 * time.Millisecond}, "TTL: 99ms is less than 100ms"},
		{"negative Wait", lockmw.Policy{Wait: -time.Second}, "Wait: -1s is negative"},
		{"negative Retries", lockmw.Policy{Retries: -1}, "Retries: -1 is negative; use lockmw.Forever"},
		{"negative RetryInterval", lockmw.Policy{RetryInterval: -1}, "RetryInterval: "},
		{"negative MaxHold", lockmw.Policy{MaxHold: -1}, "MaxHold: "},
		{"negative MinHold", lockmw.Policy{MinHold: -1}, "MinHold: "},
		{"MinHold over MaxHold", lockmw.Policy{MinHold: 2, MaxHold: 1}, "MinHold: 2ns is more than MaxHold (1ns)"},
		{"negative Permits", lockmw.Policy{Permits: -1}, "Permits: -1 is negative"},
		{"unknown Mode", lockmw.Policy{Mode: 7}, "Mode: Mode(7) is neither"},
		{"Shared with Permits", lockmw.Policy{Mode: lockmw.Shared, Permits: 2}, "Mode: Shared with Permits"},
		{"brace in Prefix", lockmw.Policy{Prefix: "a{b"}, `Prefix: has the character '{'`},
		{"newline in Prefix", lockmw.Policy{Prefix: "a\nb"}, `Prefix: has the character '\n'`},
		{"C1 control in Prefix", lockmw.Policy{Prefix: "é\u0085"}, `Prefix: has the character '\u0085'`},
		{"long Prefix", lockmw.Policy{Prefix: strings.Repeat("x", 257)}, "Prefix: 257 bytes are more than 256"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.policy.Validate()
			if !errors.Is(err, lockmw.ErrInvalidPolicy) {
				t.Fatalf("err = %v, want ErrInvalidPolicy", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %q, want it to hold %q", err, tc.want)
			}
		})
	}
}

func TestModeHasAName(t *testing.T) {
	if got := lockmw.Exclusive.String() + " " + lockmw.Shared.String(); got != "exclusive shared" {
		t.Errorf("got %q", got)
	}
}
