package lockmw

import (
	"testing"
	"time"
)

// A policy's defaults take the place of zero fields, and of no others.
func TestDefaultsFillZeroFieldsAlone(t *testing.T) {
	given := Policy{Name: "n", Prefix: "p:", TTL: time.Minute, RetryInterval: time.Second}
	for _, tc := range []struct{ given, want Policy }{
		{Policy{Prefix: "p:"}, Policy{Name: "p:", Prefix: "p:", TTL: 30 * time.Second, RetryInterval: 100 * time.Millisecond}},
		{given, given},
	} {
		if got := tc.given.withDefaults(); got != tc.want {
			t.Errorf("%+v: with its defaults it is %+v, want %+v", tc.given, got, tc.want)
		}
	}
}

// The bounds of waiters are the documented ones unless WithMaxWaiters says otherwise, and
// replicas are asked as WithReplicaAcks says.
func TestOptionsSetBothOfTheirNumbers(t *testing.T) {
	type numbers struct {
		perKey, total, acks int
		within              time.Duration
	}
	for _, tc := range []struct {
		name string
		opts []Option
		want numbers
	}{
		{"no option", nil, numbers{perKey: 1000, total: 10_000}},
		{"WithMaxWaiters", []Option{WithMaxWaiters(2, 3)}, numbers{perKey: 2, total: 3}},
		{"WithReplicaAcks", []Option{WithReplicaAcks(2, 30*time.Millisecond)}, numbers{1000, 10_000, 2, 30 * time.Millisecond}},
	} {
		o, err := gather(tc.opts)
		if got := (numbers{o.maxPerKey, o.maxTotal, o.acks, o.acksWithin}); err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v; want %+v", tc.name, got, err, tc.want)
		}
	}
}
