package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Met counts the calls that were made while something failed.
type Met map[cell]int

// A cell is what called, how it waits or what settings said of it, and what failed.
type cell struct {
	Kind  WishKind
	Way   string
	Set   string // beside Way ""
	Fault FaultKind
}

// Ways in which a call waits.
const (
	tries   = "tries"
	retries = "retries"
	waits   = "waits"
	opens   = ", fails open"
	leaves  = ", leaves the release"
)

// way says how a call waits.
func (w Wish) way() string {
	way := tries
	switch {
	case w.Policy.Wait > 0:
		way = waits
	case w.Policy.Retries > 0:
		way = retries
	}
	if w.Policy.FailOpen {
		way += opens
	}
	if w.Policy.AsyncRelease {
		way += leaves
	}
	return way
}

// What settings say of a call: its fields, or one of these.
const (
	asItIs  = "as the program has it"
	unfit   = "does not fit"
	newWait = "wait"
	noWait  = "wait=none"
	newHold = "maxHold"
	newTTL  = "ttl"
	tried   = "shadow=true"
	taken   = "shadow=false"
	without = "off"
)

// setRows returns what settings may say of the calls that plans draw.
func setRows() (all []cell) {
	for _, kind := range []WishKind{mutex, reader, permit, several, minHold, maxHold, reentrant, crowd, flight, noted, handsOn, goesOn} {
		for _, set := range []string{asItIs, unfit, newWait, noWait, newHold, newTTL, tried, taken, without} {
			if fitsNever := (Wish{Kind: kind}).needsLock() && (set == tried || set == without); !fitsNever {
				all = append(all, cell{Kind: kind, Set: set})
			}
		}
	}
	return all
}

// add adds what another run has met.
func (m Met) add(more Met) {
	for c, n := range more {
		m[c] += n
	}
}

// rows returns all that plans may draw, in the order of the table.
func rows() (all []cell) {
	for _, kind := range []WishKind{mutex, reader, permit, several, minHold, maxHold, reentrant, handsOn} {
		for _, way := range []string{tries, retries, waits} {
			all = append(all, rowsOf(kind, way)...)
		}
	}
	for _, kind := range []WishKind{flight, noted} {
		for _, way := range []string{tries, retries, waits} {
			all = append(all, cell{Kind: kind, Way: way})
		}
	}
	for _, row := range slices.Concat(rowsOf(goesOn, tries), rowsOf(goesOn, retries), rowsOf(goesOn, waits)) {
		if !strings.Contains(row.Way, opens) { // for which there is no Resume
			all = append(all, row)
		}
	}
	return append(all, rowsOf(crowd, waits)...)
}

func rowsOf(kind WishKind, way string) (all []cell) {
	all = append(all, cell{Kind: kind, Way: way}, cell{Kind: kind, Way: way + opens})
	if way != tries {
		all = append(all, cell{Kind: kind, Way: way + leaves}, cell{Kind: kind, Way: way + opens + leaves})
	}
	return all
}

// String is the table: a line for each kind of call and way to wait, and for each and what settings said of it; a column for each fault.
func (m Met) String() string {
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprint(out, "\t")
	for f := range faultKinds {
		fmt.Fprintf(out, "%d\t", f+1)
	}
	for _, row := range slices.Concat(rows(), setRows()) {
		fmt.Fprintf(out, "\n%s %s%s\t", row.Kind, row.Way, row.Set)
		for row.Fault = range faultKinds {
			fmt.Fprintf(out, "%d\t", m[row])
		}
	}
	_ = out.Flush() // into memory
	for f := range faultKinds {
		fmt.Fprintf(&b, "\n%d: %v", f+1, f)
	}
	return b.String()
}

// empty returns what was not met yet.
func (m Met) empty() (all []string) {
	for _, row := range slices.Concat(rows(), setRows()) {
		for row.Fault = range faultKinds {
			if m[row] == 0 {
				all = append(all, fmt.Sprintf("%s %s%s × %v", row.Kind, row.Way, row.Set, row.Fault))
			}
		}
	}
	return all
}

// A counted is a cell with its calls, as a run tells it to another process.
type counted struct {
	Cell  cell
	Calls int
}

// MarshalJSON writes the cells as a list.
func (m Met) MarshalJSON() ([]byte, error) {
	var list []counted
	for c, n := range m {
		list = append(list, counted{c, n})
	}
	slices.SortFunc(list, func(a, b counted) int { return strings.Compare(fmt.Sprint(a.Cell), fmt.Sprint(b.Cell)) })
	return json.Marshal(list)
}

// UnmarshalJSON reads that list.
func (m *Met) UnmarshalJSON(text []byte) error {
	var list []counted
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*m = make(Met)
	for _, c := range list {
		(*m)[c.Cell] += c.Calls
	}
	return nil
}
