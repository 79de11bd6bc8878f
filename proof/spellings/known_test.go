package spellings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// head explains table.md.
const head = `# Spellings of one object

Each cell is a request to a handler that reads its object in the way of the column, behind the middleware. It says what became of the
request, beside the first row and all rows above:

| | |
|---|---|
| = | the object of the first row, under the same lock |
| ≠ | another object, under another lock |
| 400, 404, 301, … | the middleware, the router or the server has answered, and no handler has run |
| err | the handler's decoder has refused the request (or has found an empty text or a 0, which a handler must refuse) |
| \|int, … | one object under two locks, and with this filter in the template under one (or refused) |
| ≈ *why* | two objects under one lock: more is locked than need be |
| TWO *why* | one object under two locks: the service must see to it, as docs/keys.md says |

With the filter of a column, all of its cells are tried again. What *why* stands for is at the end. The tests of this folder write this page.
`

// An exception is why some cells do not agree. The door cannot mend that, since it does not
// know how the handler reads: docs/keys.md tells it, in these words.
type exception struct {
	name    string
	verdict verdict
	tables  []string // how their names begin
	columns []string // how their names begin; nil: all
	rows    []string // what they have in them; nil: all
	says    string
}

var (
	undecoded  = []string{"Echo v4", "Echo v5", "chi", "gorilla/mux, UseEncodedPath", "Gin, UseRawPath and no UnescapePathValues"}
	beyond     = []string{"9007199254740993", "9223372036854775808", "9007199254740992", "9223372036854775807", "18446744073709551"}
	intoAny    = []string{"JSON: a number or a text, into a float"}
	upperLower = []string{"Route parameter: a text, `strings.ToLower`", "Route parameter: a text, `strings.ToUpper`", "Route parameter: a text, `strings.TrimSpace` and `strings.ToLower`"}
)

var exceptions = []exception{
	{"octal", two, []string{"Route parameter: a number, `strconv.ParseInt(s, 0, 64)`"}, nil, nil, "`strconv.ParseInt(s, 0, 64)` and `fmt.Sscan` take 052 for 42"},
	{"octal", shares, []string{"Route parameter: a number, `strconv.ParseInt(s, 0, 64)`"}, nil, nil, "`strconv.ParseInt(s, 0, 64)` and `fmt.Sscan` take 052 for 42"},
	{"digits", two, append(intoAny, "Route parameter: a number, `strconv.ParseFloat`"), nil, beyond, "a float64, also in an `any`, loses digits of integers beyond 2^53"},
	{"digits", shares, intoAny, nil, beyond, "a float64, also in an `any`, loses digits of integers beyond 2^53"},
	{"lax", two, []string{"JSON: a number, into an integer"}, []string{"gjson `Int`", "json-iterator `Get`"}, nil, "gjson's `Int` and json-iterator's `Get` never fail"},
	{"zero", two, []string{"Query: a number with a default"}, []string{"gorilla/schema"}, nil, "gorilla/schema puts its default in the place of a 0 that was sent"},
	{"literal", two, []string{"JSON: a text"}, []string{"json-iterator `Get`", "jsonparser `GetUnsafeString`"}, []string{"42.0"}, "takes the text of a JSON number as it was sent"},
	{"literal", shares, append(intoAny, "JSON: a text"), []string{"`UseNumber`", "json-iterator `Get`", "jsonparser `GetUnsafeString`"}, nil, "takes the text of a JSON number as it was sent"},
	{"bytes", two, upperLower, nil, []string{"%FE", "%EF%BF%BD"}, "`strings.ToLower` turns different texts that are not UTF-8 into the same text"},
	{"fold", shares, upperLower, nil, nil, "`|lower` takes ς for σ and ſ for s"},
	{"accent", two, []string{"Route parameter: a text, `norm.NFC`"}, nil, nil, "Unicode's two ways to write an accent"},
	{"again", two, []string{"Route parameter: a text, `url.QueryUnescape`"}, nil, nil, "must not decode it again"},
	{"undecoded", shares, []string{"Route parameter: a text", "Wildcard: "}, undecoded, []string{"%"}, "are not decoded where the path is spelled in an unusual way"},
}

func (e exception) has(table, column, row string, v verdict) bool {
	begins := func(s string) func(string) bool { return func(with string) bool { return strings.HasPrefix(s, with) } }
	return v == e.verdict && slices.ContainsFunc(e.tables, begins(table)) &&
		(e.columns == nil || slices.ContainsFunc(e.columns, begins(column))) &&
		(e.rows == nil || slices.ContainsFunc(e.rows, func(part string) bool { return strings.Contains(row, part) }))
}

// known returns the place of the exception that a cell is, or -1.
func known(table, column, row string, v verdict) int {
	return slices.IndexFunc(exceptions, func(e exception) bool { return e.has(table, column, row, v) })
}

// foot is the end of table.md.
func foot(sums *sums) string {
	var b strings.Builder
	b.WriteString("\n## Why\n\nIn the words of docs/keys.md:\n\n")
	told := make(map[string]bool)
	for _, e := range exceptions {
		if !told[e.name] {
			told[e.name] = true
			fmt.Fprintf(&b, "- *%s*: %s\n", e.name, e.says)
		}
	}
	fmt.Fprintf(&b, "\n## Counts\n\n%s.\n", sums)
	return b.String()
}

// sums are how many cells there are. One of handlers in several frameworks counts for each of them.
type sums struct {
	counts map[verdict]int
	used   []bool // which exceptions
}

// What cells are counted as, besides fails, shares and two.
const (
	agrees   verdict = "agrees"
	refused  verdict = "refused"
	filtered verdict = "filtered"
)

// add counts a cell's verdicts, and returns why they do not all agree.
func (s *sums) add(t *testing.T, table, column, row string, all []verdict) (why []string) {
	t.Helper()
	for _, v := range all {
		switch {
		case v == same || v == other:
			s.counts[agrees]++
		case strings.HasPrefix(string(v), "|"):
			s.counts[filtered]++
		case v == fails:
			s.counts[fails]++
		case v != two && v != shares:
			s.counts[refused]++
		default:
			s.counts[v]++
			i := known(table, column, row, v)
			if i < 0 {
				t.Errorf("%s, %s, %s: %s, and it is not known", table, column, row, v)
				continue
			}
			if s.used[i] = true; !slices.Contains(why, exceptions[i].name) {
				why = append(why, exceptions[i].name)
			}
		}
	}
	return why
}

func (s *sums) String() string {
	all := 0
	for _, n := range s.counts {
		all += n
	}
	return fmt.Sprintf("%d cells: %d agree, %d are refused before a handler runs, %d by the handler's decoder, %d agree, or are refused, with the filter, "+
		"in %d more is locked than need be, %d are one object under two locks",
		all, s.counts[agrees], s.counts[refused], s.counts[fails], s.counts[filtered], s.counts[shares], s.counts[two])
}

// What a service must see to is told to those who write one.
func TestTheDocumentOfKeysHasTheExceptions(t *testing.T) {
	page, err := os.ReadFile("../../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, e := range exceptions {
		if !strings.Contains(text, e.says) {
			t.Errorf("docs/keys.md does not say of %q: %s", e.name, e.says)
		}
	}
}
