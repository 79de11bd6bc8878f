package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/golden"
)

func chart() Chart {
	return Chart{
		Title: "Cost <&>", X: "waiters", Y: "turns a second",
		Series: []Series{
			{Name: "lockmw", X: []float64{1, 10, 1000, 5000}, Y: []float64{20000, 19000, 18500, 18000}},
			{Name: "other", X: []float64{1, 10, 1000, 5000}, Y: []float64{15000, 9000, 100, 0}},
		},
	}
}

func TestSVGIsAsBefore(t *testing.T) {
	for name, log := range map[string]bool{"testdata/linear.svg": false, "testdata/log.svg": true} {
		c := chart()
		c.LogY = log
		golden.Check(t, name, string(c.SVG()))
	}
}

func TestSVGIsWellFormedWhateverItShows(t *testing.T) {
	one := Series{Name: "one", X: []float64{7}, Y: []float64{0}}
	for name, c := range map[string]Chart{
		"nothing": {}, "nothing, log": {LogY: true},
		"one point": {Series: []Series{one}}, "nothing above zero": {LogY: true, Series: []Series{one}},
		"two": chart(),
	} {
		svg := string(c.SVG())
		d := xml.NewDecoder(strings.NewReader(svg))
		var err error
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: has what is no number", name)
		}
	}
}

func TestAxesHaveRoundTicks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		axis   axis
		values []float64
	}{
		{"linear", linearAxis([]float64{3, 87}), []float64{0, 20, 40, 60, 80, 100}},
		{"nothing", linearAxis(nil), []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{"decades", logAxis([]float64{1, 5000}), []float64{1, 10, 100, 1000, 10000}},
		{"powers of two", logAxis([]float64{1, 16}), []float64{1, 2, 4, 8, 16}},
	} {
		near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
		if !slices.EqualFunc(tc.axis.ticks, tc.values, near) {
			t.Errorf("%s: ticks %v, want %v", tc.name, tc.axis.ticks, tc.values)
		}
	}
}

func TestShortNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 999: "999", 1000: "1k", 2.5e4: "25k", 1e6: "1M", 2e9: "2G"} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %q, want %q", v, got, want)
		}
	}
}
