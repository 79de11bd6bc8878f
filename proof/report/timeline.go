package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"time"

	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// The picture, in pixels.
const (
	width       = 900
	left, right = 120, 20
	plotWidth   = width - left - right
	heading     = 70 // title and line below it
	lane        = 44
	bar         = 22
	labelLine   = 17 // of the labels of faults and overlaps
	axis        = 46
	legend      = 34
	charWidth   = 6.4 // of the small letters, about
)

// Colours that people with colour-blindness can tell apart too (Okabe, Ito);
// red is left for overlaps.
var fills = map[string]string{history.Released: "#0072b2", history.Lost: "#e69f00", history.Unsure: "#56b4e9", history.Killed: "#6e6e6e"}

const (
	red   = "#cc0022"
	shade = "#f3e3c3"
)

// picture is a timeline while it is drawn.
type picture struct {
	bytes.Buffer
	record.Timeline

	workers  []string
	overlaps []history.Overlap
	top      int // of the first lane
	bottom   int // of the last one
}

// title says what is seen.
func title(t record.Timeline) string {
	overlaps := history.Overlaps(t.Holds)
	if len(overlaps) == 0 {
		return t.Engine + ": no overlap"
	}
	return fmt.Sprintf("%s: %s, the longest %s", t.Engine, record.Plural(len(overlaps), "overlap"), short(longest(overlaps).For))
}

func longest(overlaps []history.Overlap) history.Overlap {
	return slices.MaxFunc(overlaps, func(a, b history.Overlap) int { return cmp.Compare(a.For, b.For) })
}

// SVG draws a timeline. The same one gives the same bytes.
func SVG(t record.Timeline) []byte {
	p := &picture{Timeline: t, overlaps: history.Overlaps(t.Holds)}
	for _, h := range t.Holds {
		if !slices.Contains(p.workers, h.Worker) {
			p.workers = append(p.workers, h.Worker)
		}
	}
	slices.Sort(p.workers)
	faults, faultLines := p.stack(p.faultLabels())
	marks, markLines := p.stack(p.overlapLabels())
	p.top = heading + (faultLines+markLines)*labelLine + 8
	p.bottom = p.top + lane*len(p.workers)
	height := p.bottom + axis + legend

	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222">`+"\n", width, height, width, height)
	p.printf(`<title>%s</title>`, html.EscapeString(title(t)))
	p.printf(`<rect x="0.5" y="0.5" width="%d" height="%d" rx="6" fill="#fff" stroke="#d0d0d0"/>`, width-1, height-1)
	p.text(20, 30, `font-size="17" font-weight="bold"`, title(t))
	p.text(20, 50, `fill="#555"`, fmt.Sprintf("key %s, TTL %s", t.Key, short(t.TTL)))
	p.shades()
	p.lanes()
	p.holds()
	p.marks()
	p.labels(faults, heading, `fill="#7a5200"`)
	p.labels(marks, heading+faultLines*labelLine, `fill="`+red+`" font-weight="bold"`)
	p.axis()
	p.legend(height - legend/2)
	p.WriteString("</svg>\n")
	return p.Bytes()
}

// printf writes one element.
func (p *picture) printf(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *picture) text(x, y float64, attributes, what string) {
	p.printf(`<text x="%.1f" y="%.1f" %s>%s</text>`, x, y, attributes, html.EscapeString(what))
}

// x returns where a time is; one outside of the picture is at its edge.
func (p *picture) x(at time.Duration) float64 {
	at = min(max(at, p.From), p.To)
	return left + plotWidth*float64(at-p.From)/float64(max(1, p.To-p.From))
}

// y returns the top of a worker's lane.
func (p *picture) y(worker string) float64 {
	return float64(p.top + lane*slices.Index(p.workers, worker))
}

// box draws a rectangle from one time to another, at least so wide that it is
// seen.
func (p *picture) box(from, to time.Duration, y, height float64, attributes string) {
	x := p.x(from)
	p.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s/>`, x, y, max(1.5, p.x(to)-x), height, attributes)
}

// shades draws the faults behind everything else.
func (p *picture) shades() {
	for _, f := range p.Faults {
		y, height := float64(p.top), float64(p.bottom-p.top)
		if slices.Contains(p.workers, f.Worker) {
			y, height = p.y(f.Worker), lane
		}
		p.box(f.From, f.To, y, height, `fill="`+shade+`"`)
	}
}

func (p *picture) lanes() {
	for i, worker := range p.workers {
		y := float64(p.top + lane*i)
		p.printf(`<line x1="20" y1="%.1f" x2="%d" y2="%.1f" stroke="#e0e0e0"/>`, y, width-right, y)
		p.text(20, y+lane/2+4, "", clip(worker, left-30))
	}
}

// holds draws the wait for each hold as a thin line, and the hold as a bar.
func (p *picture) holds() {
	for _, h := range p.Holds {
		if h.Ended <= p.From || h.Began >= p.To {
			continue
		}
		y := p.y(h.Worker)
		p.waitingLine(p.x(h.Asked), p.x(h.Began), y+lane/2)
		fill := cmp.Or(fills[h.How], "#000")
		p.box(h.Began, h.Ended, y+(lane-bar)/2, bar, `fill="`+fill+`" stroke="#fff" stroke-width="0.5"`)
	}
}

// marks draws what two held together, over both bars.
func (p *picture) marks() {
	for _, o := range p.overlaps {
		from, to := o.Hold.Began, o.Hold.Began+o.For
		a, b := p.y(o.Hold.Worker), p.y(o.With.Worker)
		p.box(from, to, float64(p.top), float64(p.bottom-p.top), `fill="`+red+`" fill-opacity="0.12"`)
		for _, y := range []float64{a, b} {
			p.box(from, to, y+(lane-bar)/2, bar, `fill="`+red+`"`)
		}
	}
}

// axis draws the time in seconds, from 0.
func (p *picture) axis() {
	p.printf(`<path d="M%d %dH%d" stroke="#666"/>`, left, p.bottom, width-right)
	whole := p.To - p.From
	step := step(whole)
	for at := time.Duration(0); at <= whole; at += step {
		x := p.x(p.From + at)
		p.printf(`<path d="M%.1f %dv5" stroke="#666"/>`, x, p.bottom)
		p.text(x, float64(p.bottom+20), `text-anchor="middle"`, digits(at.Seconds(), 3))
	}
	p.text(left+plotWidth/2, float64(p.bottom+37), `text-anchor="middle" fill="#555"`, "seconds")
}

// step returns a round distance between the marks of an axis, ten or so of them.
func step(whole time.Duration) time.Duration {
	rough := max(float64(whole)/12, float64(time.Millisecond))
	unit := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, n := range []float64{1, 2, 5} {
		if n*unit >= rough {
			return time.Duration(n * unit)
		}
	}
	return time.Duration(10 * unit)
}
