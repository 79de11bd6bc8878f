package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/lockmw/kit/lockmw"
)

// A writer writes locks as they come.
type writer interface{ write(lockmw.Info) error }

// newEncoder returns an encoder of JSON for people and other programs, not for web pages.
func newEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(printableJSON{w})
	e.SetEscapeHTML(false)
	return e
}

// printableJSON hands on JSON, of which the encoder writes a document at once, with escapes
// for what would move a terminal's cursor or hide something. That stands in strings only.
type printableJSON struct{ io.Writer }

func (p printableJSON) Write(document []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(document) {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	if _, err := io.WriteString(p.Writer, b.String()); err != nil {
		return 0, err
	}
	return len(document), nil
}

// inJSON writes a lock as a line of JSON.
type inJSON struct{ *json.Encoder }

func (j inJSON) write(i lockmw.Info) error { return j.Encode(i) }

// A table writes a line for each holder. Its columns are as wide as what they mostly have,
// since lines are written before the next ones are known.
type table struct {
	w    io.Writer
	head bool
}

func newTable(w io.Writer, output string) writer {
	if output == "json" {
		return inJSON{newEncoder(w)}
	}
	return &table{w: w}
}

const columns = "%-32s %-9s %-8s %-8s %-7s %-24s %s\n"

func (t *table) write(i lockmw.Info) error {
	if !t.head {
		t.head = true
		if _, err := fmt.Fprintf(t.w, columns, "KEY", "MODE", "AGE", "TTL", "WAITING", "HOLDER", "NOTE"); err != nil {
			return err
		}
	}
	if len(i.Holders) == 0 {
		return t.line(quoted(i.Key), mode(i), "-", "-", i.Waiting, "nobody", "")
	}
	for n, h := range i.Holders {
		key := quoted(i.Key)
		if n > 0 {
			key = "  and"
		}
		since, holder := age(h), instance(h)
		if h.CoolingDown {
			since, holder = "-", "cooling down until "+until(h)
		} else if h.HandedOn {
			since, holder = "-", "handed on until "+until(h)
		}
		if err := t.line(key, mode(i), since, left(h), i.Waiting, holder, printable(h.Note)); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) line(key, mode, age, left string, waiting int, instance, note string) error {
	text := fmt.Sprintf(columns, key, mode, age, left, fmt.Sprint(waiting), instance, note)
	_, err := io.WriteString(t.w, strings.TrimRight(text, " \n")+"\n")
	return err
}

// Works are a table with a line for each work that is uncertain.
type works struct {
	w    io.Writer
	head bool
}

func newWorks(w io.Writer, output string) writer {
	if output == "json" {
		return inJSON{newEncoder(w)}
	}
	return &works{w: w}
}

const workColumns = "%-32s %-17s %-9s %s\n"

func (t *works) write(i lockmw.Info) error {
	if !t.head {
		t.head = true
		if _, err := fmt.Fprintf(t.w, workColumns, "KEY", "ID", "AGE", "SINCE"); err != nil {
			return err
		}
	}
	a := i.Answer
	_, err := fmt.Fprintf(t.w, workColumns, quoted(i.Key), a.Work, short(time.Since(a.Since)), a.Since.Format(time.DateTime))
	return err
}

// A page writes one lock in full.
type page struct{ w io.Writer }

// waiterColumns are those of a page's waiters, a line each.
const waiterColumns = "  %-6d %-8s %-9s %-24s %s"

func newPage(w io.Writer, output string) writer {
	if output == "json" {
		return inJSON{newEncoder(w)}
	}
	return page{w}
}

func (p page) write(i lockmw.Info) error {
	var b strings.Builder
	fmt.Fprintf(&b, "key      %s\n", quoted(i.Key))
	if len(i.Holders) == 0 {
		b.WriteString("holder   nobody\n")
	} else {
		fmt.Fprintf(&b, "mode     %s\n", mode(i))
	}
	for _, h := range i.Holders {
		if h.CoolingDown {
			fmt.Fprintf(&b, "cooling down until %s, for another %s\n  after  %s\n", until(h), left(h), instance(h))
			if h.Note != "" {
				fmt.Fprintf(&b, "  note   %s\n", printable(h.Note))
			}
			continue
		}
		if h.HandedOn {
			fmt.Fprintf(&b, "handed on until %s, for another %s, to whoever has the ticket\n  by     %s\n", until(h), left(h), instance(h))
			if h.Note != "" {
				fmt.Fprintf(&b, "  note   %s\n", printable(h.Note))
			}
			continue
		}
		fmt.Fprintf(&b, "holder   %s\n", instance(h))
		fmt.Fprintf(&b, "  since  %s\n", age(h))
		fmt.Fprintf(&b, "  TTL    %s\n", left(h))
		if h.Note != "" {
			fmt.Fprintf(&b, "  note   %s\n", printable(h.Note))
		}
	}
	fmt.Fprintf(&b, "waiting  %d\n", i.Waiting)
	for n, w := range i.Waiters {
		line := fmt.Sprintf(waiterColumns, n+1, waited(w), wants(w), printable(w.Instance), printable(w.Note))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if more := i.Waiting - len(i.Waiters); more > 0 && len(i.Waiters) > 0 {
		fmt.Fprintf(&b, "         and %d more\n", more)
	}
	if a := i.Answer; a != nil {
		fmt.Fprintf(&b, "answer   %s\n", answer(a))
	}
	_, err := io.WriteString(p.w, b.String())
	return err
}

// answer tells in a line what Do has left beside a lock.
func answer(a *lockmw.KeptAnswer) string {
	switch a.State {
	case lockmw.AnswerKept:
		return fmt.Sprintf("kept %s ago, %d bytes, for whoever comes until %s", short(time.Since(a.Since)), a.Bytes, a.Until.Format(time.DateTime))
	case lockmw.AnswerInProgress:
		return fmt.Sprintf("work %s was begun %s ago", a.Work, short(time.Since(a.Since)))
	default:
		return fmt.Sprintf("uncertain: work %s was begun %s ago, and nobody is at it; see 'lockctl resolve --help'", a.Work, short(time.Since(a.Since)))
	}
}

func mode(i lockmw.Info) string {
	switch {
	case i.Permits > 0:
		return fmt.Sprintf("%d/%d", len(i.Holders), i.Permits)
	case len(i.Holders) == 0:
		return "-"
	}
	return i.Mode.String()
}

// wants says in a word or two what a waiter waits for.
func wants(w lockmw.Waiter) string {
	if w.Permits > 0 {
		return fmt.Sprintf("1 of %d", w.Permits)
	}
	return w.Mode.String()
}

func waited(w lockmw.Waiter) string {
	if w.Waited <= 0 {
		return "-"
	}
	return short(w.Waited)
}

func instance(h lockmw.Holder) string {
	if h.Instance == "" {
		return "(no lockmw)"
	}
	return printable(h.Instance)
}

func age(h lockmw.Holder) string {
	if h.Age <= 0 {
		return "-"
	}
	return short(h.Age)
}

// until is the time of day at which a cool-down ends, or the time of a ticket; with the date where that is a day away.
func until(h lockmw.Holder) string {
	if h.Left >= 24*time.Hour {
		return time.Now().Add(h.Left).Format(time.DateTime)
	}
	return time.Now().Add(h.Left).Format(time.TimeOnly)
}

func left(h lockmw.Holder) string {
	if h.Left < 0 {
		return "none"
	}
	return short(h.Left)
}

// short is a duration of three digits or so.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// printable is text without what would move a terminal's cursor or hide something: others
// have written it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// isDevice reports whether a file is a terminal, or /dev/null, which is as good as one that
// nobody sits at.
func isDevice(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// isTerminal reports whether w is a terminal that can do more than write lines.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isDevice(f) && os.Getenv("TERM") != "dumb"
}

// coloured is text in a colour, by its number, where w shows colours and the user wants them.
func coloured(w io.Writer, colour, text string) string {
	if os.Getenv("NO_COLOR") != "" || !isTerminal(w) {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
