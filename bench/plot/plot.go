// Package plot draws line charts as SVG.
package plot

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// A Chart is lines over one pair of axes. The x axis is logarithmic.
type Chart struct {
	Title, X, Y string
	LogY        bool // otherwise the y axis begins at zero
	Series      []Series
}

// Series is one line. X must be above zero and ascend; with LogY points at or
// below zero are left out.
type Series struct {
	Name string
	X, Y []float64
}

const (
	width, height                = 720, 420
	left, right, top, bottom     = 76, 150, 46, 56
	plotWidth, plotHeight        = width - left - right, height - top - bottom
	ticksY                       = 5
	legendLine, legendX, markRad = 22, width - right + 16, 3.5
)

// Colours that people with colour-blindness can tell apart too (Okabe, Ito).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f", "#e69f00"}

// SVG returns the chart as a file. The same chart gives the same bytes.
func (c Chart) SVG() []byte {
	var b bytes.Buffer
	x, y := c.axes()
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#333">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, left, 26, "start", `font-size="16" font-weight="bold"`, c.Title)
	for _, v := range y.ticks {
		at := top + plotHeight*(1-y.at(v))
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e3e3e3"/>`+"\n", left, at, left+plotWidth, at)
		text(&b, left-8, at+4, "end", "", short(v))
	}
	for _, v := range x.ticks {
		at := left + plotWidth*x.at(v)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#999"/>`+"\n", at, top+plotHeight, at, top+plotHeight+5)
		text(&b, at, top+plotHeight+20, "middle", "", short(v))
	}
	fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" fill="none" stroke="#666"/>`+"\n", left, top, top+plotHeight, left+plotWidth)
	text(&b, left+plotWidth/2, height-14, "middle", "", c.X+" (logarithmic)")
	name := c.Y
	if c.LogY {
		name += " (logarithmic)"
	}
	text(&b, 0, 0, "middle", fmt.Sprintf(`transform="translate(18 %d) rotate(-90)"`, top+plotHeight/2), name)
	for i, s := range c.Series {
		s.draw(&b, i, x, y)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// draw draws the line and its place in the legend.
func (s Series) draw(b *bytes.Buffer, i int, x, y axis) {
	colour := colours[i%len(colours)]
	var points []string
	for j, v := range s.X {
		if y.log && s.Y[j] <= 0 {
			continue
		}
		px, py := left+plotWidth*x.at(v), top+plotHeight*(1-y.at(s.Y[j]))
		points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%v" fill="%s"/>`+"\n", px, py, markRad, colour)
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
	at := top + 8 + i*legendLine
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="3"/>`+"\n", legendX, at, legendX+20, at, colour)
	text(b, legendX+28, float64(at+4), "start", "", s.Name)
}

func text(b *bytes.Buffer, x, y float64, anchor, more, s string) {
	if more != "" {
		more = " " + more
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(s))
}

// An axis maps values to 0…1.
type axis struct {
	log      bool
	from, to float64
	ticks    []float64
}

func (a axis) at(v float64) float64 {
	if a.log {
		return math.Log(v/a.from) / math.Log(a.to/a.from)
	}
	return (v - a.from) / (a.to - a.from)
}

func (c Chart) axes() (x, y axis) {
	var xs, ys []float64
	for _, s := range c.Series {
		xs, ys = append(xs, s.X...), append(ys, s.Y...)
	}
	if c.LogY {
		return logAxis(xs), logAxis(ys)
	}
	return logAxis(xs), linearAxis(ys)
}

// logAxis covers the positive values; its ticks are powers of ten, or of two
// where those would be too few.
func logAxis(values []float64) axis {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		low, high = 1, 1
	}
	base := 10.0
	if high/low < 100 { // fewer than two decades
		base = 2
	}
	const slack = 1e-9 // for powers that are not quite whole
	first := math.Floor(math.Log(low)/math.Log(base) + slack)
	last := math.Ceil(math.Log(high)/math.Log(base) - slack)
	last = max(last, first+1)
	a := axis{log: true, from: math.Pow(base, first), to: math.Pow(base, last)}
	for e := first; e <= last; e++ {
		a.ticks = append(a.ticks, math.Pow(base, e))
	}
	return a
}

// linearAxis goes from zero to a round number above the values.
func linearAxis(values []float64) axis {
	high := 0.0
	for _, v := range values {
		high = max(high, v)
	}
	if high == 0 {
		high = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(high/ticksY)))
	for _, times := range []float64{1, 2, 5, 10} {
		if step*times*ticksY >= high {
			step *= times
			break
		}
	}
	a := axis{to: step * math.Ceil(high/step)}
	for i := 0; float64(i)*step <= a.to+step/2; i++ {
		a.ticks = append(a.ticks, float64(i)*step)
	}
	return a
}

// short writes a number for a tick: 20k, 1M, 0.5.
func short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size {
			return strconv.FormatFloat(v/unit.size, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
