package main

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/lockmw/kit/proof/history"
)

// label is a text above the lanes.
type label struct {
	what string
	x    float64 // its middle
	line int
}

func widthOf(text string) float64 { return charWidth * float64(utf8.RuneCountInString(text)) }

// clip shortens a text that is too wide.
func clip(text string, pixels float64) string {
	if widthOf(text) <= pixels {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(1, int(pixels/charWidth)-1)]) + "…"
}

func (p *picture) faultLabels() []label {
	var all []label
	for _, f := range p.Faults {
		all = append(all, label{what: f.Label, x: (p.x(f.From) + p.x(f.To)) / 2})
	}
	return all
}

// overlapLabels says how long the overlaps are; of many, only the longest.
func (p *picture) overlapLabels() []label {
	shown := p.overlaps
	if len(shown) > 6 {
		shown = []history.Overlap{longest(shown)}
	}
	var all []label
	for _, o := range shown {
		all = append(all, label{what: "overlap " + short(o.For), x: (p.x(o.Hold.Began) + p.x(o.Hold.Began+o.For)) / 2})
	}
	return all
}

// stack puts labels into as few lines as keep them apart, and returns how many
// there are.
func (p *picture) stack(all []label) ([]label, int) {
	slices.SortStableFunc(all, func(a, b label) int { return cmp.Compare(a.x, b.x) })
	var ends []float64 // of the last label of each line
	for i := range all {
		half := widthOf(all[i].what) / 2
		all[i].x = max(left+half, min(width-right-half, all[i].x))
		line := slices.IndexFunc(ends, func(end float64) bool { return end < all[i].x-half })
		if line < 0 {
			line = len(ends)
			ends = append(ends, 0)
		}
		ends[line], all[i].line = all[i].x+half+8, line
	}
	return all, len(ends)
}

func (p *picture) labels(all []label, top int, attributes string) {
	for _, l := range all {
		p.text(l.x, float64(top+l.line*labelLine+labelLine-4), `text-anchor="middle" `+attributes, l.what)
	}
}

// legend explains what is there.
func (p *picture) legend(y int) {
	x := 20.0
	next := func(what string) {
		p.text(x+22, float64(y), "", what)
		x += 22 + widthOf(what) + 16
	}
	entry := func(fill, what string) {
		p.printf(`<rect x="%.1f" y="%d" width="16" height="12" fill="%s"/>`, x, y-10, fill)
		next(what)
	}
	for _, one := range []struct{ how, what string }{
		{history.Released, "held, released"},
		{history.Lost, "held, told it is lost"},
		{history.Unsure, "held, release unsure"},
		{history.Killed, "held, killed"},
	} {
		if slices.ContainsFunc(p.Holds, func(h history.Hold) bool { return h.How == one.how }) {
			entry(fills[one.how], one.what)
		}
	}
	if len(p.overlaps) > 0 {
		entry(red, "two hold it")
	}
	if len(p.Faults) > 0 {
		entry(shade, "fault")
	}
	p.waitingLine(x, x+16, float64(y-4))
	next("waits")
}

func (p *picture) waitingLine(from, to, y float64) {
	p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#888" stroke-dasharray="2 2"/>`, from, y, to, y)
}
