package dashboards_test

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// go test -count=1 -run TestDemoShowsOnEveryPanel -picture ../docs/board.svg draws the board anew.
var picture = flag.String("picture", "", "the file into which the board is drawn, with what it shows of the demo")

// A line is what a panel shows of one series.
type line struct {
	name string
	x, y []float64 // seconds since the beginning, and values
}

func (l line) last() float64 { return l.y[len(l.y)-1] }

// lines returns what a panel shows from a time on.
func (p *prometheus) lines(t *testing.T, of panel, from time.Time, shown view) (all []line) {
	t.Helper()
	shown.whole = time.Since(from).Round(time.Second)
	for _, target := range of.Targets {
		for _, s := range p.over(t, shown.query(t, of, target.Expr), from, shown.step(t, of)) {
			l := line{name: regexp.MustCompile(`{{(\w+)}}`).ReplaceAllStringFunc(target.LegendFormat, func(label string) string {
				return s.Metric[strings.Trim(label, "{}")]
			})}
			for _, v := range s.Values {
				at, _ := v[0].(float64)
				if y, ok := number(v); ok && !math.IsInf(y, 0) { // a share of nothing
					l.x, l.y = append(l.x, at-float64(from.UnixMilli())/1000), append(l.y, y)
				}
			}
			if len(l.y) > 0 {
				all = append(all, l)
			}
		}
	}
	return all
}

// What a unit of the board's grid is in the picture, and the room that a panel leaves around its curves and for the names of these.
const (
	gridWide, gridHigh = 50, 30
	edge, titleHigh    = 6, 26
	scaleWide, nameOf  = 52, 14
	mostNames          = 5
)

// The colours of curves are told apart by people with colour-blindness, too, on white and on black (Okabe, Ito).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c8c8c", "#e69f00", "#56b4e9"}

const styles = `<style>text{font:12px sans-serif;fill:#24292f}.row{font-weight:bold;font-size:15px}.small{font-size:11px;fill:#57606a}.big{font-size:30px}` +
	`.page{fill:#f6f8fa}.panel{fill:#fff;stroke:#d0d7de}.scale{stroke:#d0d7de}polyline{fill:none;stroke-width:1.5}` +
	`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.page{fill:#0d1117}.panel{fill:#161b22;stroke:#3d444d}.scale{stroke:#3d444d}}</style>`

// draw returns the board as SVG. lasts is how many seconds its curves are long.
func draw(b board, lasts float64, linesOf func(panel) []line) []byte {
	high := 0
	for _, p := range b.Panels {
		high = max(high, p.GridPos.Y+p.GridPos.H)
	}
	var s bytes.Buffer
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">%s<rect class="page" width="100%%" height="100%%"/>`+"\n", 24*gridWide, high*gridHigh, styles)
	for _, p := range b.Panels {
		at := p.GridPos
		wide, high := at.W*gridWide-edge, at.H*gridHigh-edge
		fmt.Fprintf(&s, `<g transform="translate(%d %d)">`, at.X*gridWide+edge/2, at.Y*gridHigh+edge/2)
		if p.Type == "row" {
			words(&s, "row", 4, high-5, p.Title)
		} else {
			fmt.Fprintf(&s, `<rect class="panel" width="%d" height="%d" rx="4"/>`, wide, high)
			words(&s, "", 10, 18, p.Title)
			drawPanel(&s, p, wide, high, lasts, linesOf(p))
		}
		s.WriteString("</g>\n")
	}
	s.WriteString("</svg>\n")
	return s.Bytes()
}

func drawPanel(s *bytes.Buffer, p panel, wide, high int, lasts float64, lines []line) {
	unit := p.FieldConfig.Defaults.Unit
	most := 0.0
	for _, l := range lines {
		most = max(most, slices.Max(l.y))
	}
	switch {
	case len(lines) == 0:
		words(s, "small", 10, high/2, "no data")
	case p.Type == "stat":
		words(s, "big", 10, high-22, p.says(lines[0].last()))
	case p.Type == "bargauge":
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.last(), a.last()) })
		for i, l := range lines[:min(len(lines), (high-titleHigh)/nameOf/2)] {
			y := titleHigh + 2*nameOf*i
			fmt.Fprintf(s, `<rect x="10" y="%d" width="%.0f" height="5" fill="%s"/>`, y+nameOf+3, max(1, float64(wide-20)*l.last()/max(most, math.SmallestNonzeroFloat64)), colours[0])
			words(s, "small", 10, y+nameOf-1, l.name+"  "+show(l.last(), unit))
		}
	default:
		drawCurves(s, unit, wide, high, lasts, most, lines)
	}
}

// drawCurves draws the lines of a panel with the names of the highest below.
func drawCurves(s *bytes.Buffer, unit string, wide, high int, lasts, most float64, lines []line) {
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(slices.Max(b.y), slices.Max(a.y)) })
	named := lines[:min(len(lines), mostNames)]
	bottom := high - 8 - nameOf*len(named)
	scale := func(v float64) float64 {
		return float64(bottom) - v*float64(bottom-titleHigh-4)/max(most, math.SmallestNonzeroFloat64)
	}
	for _, v := range []float64{0, most / 2, most} {
		fmt.Fprintf(s, `<path class="scale" d="M%d %.0fH%d"/>`, scaleWide, scale(v), wide-10)
		words(s, "small", 6, int(scale(v))+4, show(v, unit))
	}
	for i, l := range slices.Backward(lines) { // the highest on top
		fmt.Fprintf(s, `<polyline stroke="%s" points="`, colours[i%len(colours)])
		for j, x := range l.x {
			fmt.Fprintf(s, "%.0f,%.0f ", scaleWide+x*float64(wide-10-scaleWide)/lasts, scale(l.y[j]))
		}
		s.WriteString(`"/>`)
	}
	for i, l := range named {
		name := l.name
		if more := len(lines) - len(named); i == len(named)-1 && more > 0 {
			name += fmt.Sprintf(", and %d more", more)
		}
		y := bottom + nameOf*(i+1)
		fmt.Fprintf(s, `<path stroke="%s" stroke-width="3" d="M10 %dh12"/>`, colours[i%len(colours)], y-3)
		words(s, "small", 28, y+1, name)
	}
}

func words(s *bytes.Buffer, class string, x, y int, text string) {
	fmt.Fprintf(s, `<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, html.EscapeString(text))
}

// says returns a value as the panel maps it.
func (p panel) says(v float64) string {
	for _, mapping := range p.FieldConfig.Defaults.Mappings {
		if text, ok := mapping.Options[strconv.FormatFloat(v, 'f', -1, 64)]; ok {
			return text.Text
		}
	}
	if d := p.FieldConfig.Defaults; d.Unit == "none" && d.Decimals != nil {
		return strconv.FormatFloat(v, 'f', *d.Decimals, 64)
	}
	return show(v, p.FieldConfig.Defaults.Unit)
}

// show writes a value in a unit of Grafana.
func show(v float64, unit string) string {
	switch unit {
	case "s":
		d := time.Duration(v * float64(time.Second))
		return d.Round(max(100*time.Microsecond, d/100).Truncate(100 * time.Microsecond)).String()
	case "percentunit":
		return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
	case "cps":
		return strconv.FormatFloat(v, 'f', 1, 64) + "/s"
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func TestThePictureHasEveryPanelAndItsCurves(t *testing.T) {
	b, curves := readBoard(t), 0
	svg := draw(b, 60, func(p panel) []line {
		if p.Type == "timeseries" {
			curves += 2
		}
		return []line{{"a <name>", []float64{0, 30, 60}, []float64{1, 0, 1}}, {"b", []float64{30, 60}, []float64{0, 1}}}
	})
	texts := make(map[string]bool)
	drawn := 0
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
		switch token := token.(type) {
		case xml.CharData:
			texts[string(token)] = true
		case xml.StartElement:
			if token.Name.Local == "polyline" {
				drawn++
			}
		}
	}
	for _, p := range b.Panels {
		if !texts[p.Title] {
			t.Errorf("panel %q is not there", p.Title)
		}
		if p.Type == "state-timeline" {
			curves += 2
		}
	}
	if drawn != curves || curves < 40 {
		t.Errorf("%d curves are drawn, want %d", drawn, curves)
	}
	for _, text := range []string{"a <name>", "UP", "100.0 %", "1s", "1.0/s"} {
		if !texts[text] {
			t.Errorf("the text %q is not there", text)
		}
	}
}

// The picture in docs is drawn when somebody asks for it, so a panel that was added since may be missing there.
func TestThePictureInDocsIsOfThisBoard(t *testing.T) {
	svg, err := os.ReadFile("../docs/board.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range readBoard(t).Panels {
		if !bytes.Contains(svg, []byte(">"+html.EscapeString(p.Title)+"</text>")) {
			t.Errorf("panel %q is not there: draw it anew, as the flag -picture says", p.Title)
		}
	}
}
