package waits

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsAreOrderedAndNarrow(t *testing.T) {
	for v := uint64(0); v < 1<<62; v += v/50 + 1 {
		i := bucket(v)
		if up := upper(i); up < v || float64(up-v) > float64(v)/cuts {
			t.Fatalf("%d lies in bucket %d, which ends at %d", v, i, up)
		}
		if i > 0 && upper(i-1) >= v {
			t.Fatalf("%d lies in bucket %d, but also below %d", v, i, upper(i-1))
		}
	}
}

func TestQuantilesAreThoseOfTheSortedList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var a, b Counts
	var all []time.Duration
	for i := range 10000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%3 == 0 {
			a.Add(d)
		} else {
			b.Add(d)
		}
	}
	slices.Sort(all)
	var sum Summary
	sum.Merge(a.Summary())
	sum.Merge(b.Summary())
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		want := all[int(q*10000)-1]
		got := sum.Quantile(q)
		if got < want || float64(got) > float64(want)*1.016+1 {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if want := all[len(all)-1]; sum.Max != want || sum.Quantile(1) != want {
		t.Errorf("max = %v and quantile 1 = %v, want %v", sum.Max, sum.Quantile(1), want)
	}
	if sum.Count() != 10000 {
		t.Errorf("count = %d, want 10000", sum.Count())
	}
}

func TestNothingHasNoQuantiles(t *testing.T) {
	var c Counts
	s := c.Summary()
	if s.Quantile(0.5) != 0 || s.Count() != 0 {
		t.Errorf("quantile = %v of %d", s.Quantile(0.5), s.Count())
	}
	c.Add(-time.Second)
	s = c.Summary()
	if s.Quantile(0.5) != 0 || s.Count() != 1 {
		t.Errorf("less than nothing: quantile = %v of %d, want 0 of 1", s.Quantile(0.5), s.Count())
	}
}
