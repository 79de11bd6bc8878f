package seen_test

import (
	"testing"
	"time"

	"github.com/lockmw/kit/internal/seen"
)

func TestSame(t *testing.T) {
	since := time.Now()
	ana, ben := seen.Hold{Instance: "shop-1", Note: "ana", Since: since}, seen.Hold{Instance: "shop-1", Note: "ben", Since: since}
	later := func(h seen.Hold, d time.Duration) seen.Hold { h.Since = h.Since.Add(d); return h }
	unknown := seen.Hold{Instance: "shop-1", Note: "ana"}
	for _, tc := range []struct {
		now, were []seen.Hold
		want      bool
	}{
		{nil, []seen.Hold{ana}, true},
		{[]seen.Hold{ana}, []seen.Hold{ana}, true},
		{[]seen.Hold{later(ana, 2*time.Second)}, []seen.Hold{ana}, true},
		{[]seen.Hold{later(ana, -2*time.Second)}, []seen.Hold{ana}, true},
		{[]seen.Hold{later(ana, 3*time.Second)}, []seen.Hold{ana}, false},
		{[]seen.Hold{later(ana, -3*time.Second)}, []seen.Hold{ana}, false},
		{[]seen.Hold{ben}, []seen.Hold{ana}, false},
		{[]seen.Hold{{Instance: "shop-2", Note: "ana", Since: since}}, []seen.Hold{ana}, false},
		{[]seen.Hold{ben}, []seen.Hold{ana, ben}, true},
		{[]seen.Hold{ana, ben}, []seen.Hold{ana}, false},
		{[]seen.Hold{unknown}, []seen.Hold{unknown}, true},
		{[]seen.Hold{ana}, []seen.Hold{unknown}, false},
	} {
		if got := seen.Same(tc.now, tc.were); got != tc.want {
			t.Errorf("now %v, shown were %v: %v, want %v", tc.now, tc.were, got, tc.want)
		}
	}
}
