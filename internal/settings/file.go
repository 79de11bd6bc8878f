package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// How a file of settings is read. encoding/json takes the last of two members with one name; here they are an error.

// ParseFile reads a file: a JSON object with an entry for each pattern. What cannot be read is an error for
// the whole file. It says in which line, and which entries are not taken for it.
func ParseFile(data []byte) (map[Pattern]Entry, error) {
	members, end, err := membersOf(data)
	if err != nil {
		return nil, inLine(data, end, err, members, "what stands behind them")
	}
	entries := make(map[Pattern]Entry, len(members))
	for _, m := range members {
		pattern, err := ParsePattern(m.name)
		var entry Entry
		if err == nil {
			if entry, err = parse(m.value, inFile); err != nil {
				err = fmt.Errorf("%s: %w", m.name, err)
			}
		}
		if err != nil {
			return nil, inLine(data, m.at, err, members, "")
		}
		entries[pattern] = entry
	}
	return entries, nil
}

// mostNamed is how many entries an error names.
const mostNamed = 10

// inLine is err with the line of data in which the byte at is, and the entries that are not taken.
func inLine(data []byte, at int, err error, members []member, more string) error {
	var names []string
	for i, m := range members {
		if i == mostNamed {
			names = append(names, fmt.Sprintf("%d more", len(members)-i))
			break
		}
		name := m.name
		if _, err := ParsePattern(name); err != nil {
			name = strconv.Quote(name)
		}
		names = append(names, name)
	}
	if more != "" && len(names) > 0 {
		names = append(names, more)
	}
	notTaken := ""
	if len(names) > 0 {
		notTaken = "; not taken: " + strings.Join(names, ", ")
	}
	return fmt.Errorf("line %d: %w%s", 1+bytes.Count(data[:at], []byte("\n")), err, notTaken)
}

// A member is one of a JSON object.
type member struct {
	name  string
	value []byte
	at    int // the byte at which its name ends
}

// errNoObject is the error of a text that is no JSON object.
var errNoObject = errors.New("it is no JSON object")

// membersOf returns the members of a JSON object in their order. Where there is an error, these are the members in front of it, and at
// is where it is. encoding/json takes the last of two members with one name for both; here they are an error.
func membersOf(text []byte) (members []member, at int, err error) {
	var whole json.RawMessage
	wrong := json.Unmarshal(text, &whole)
	if syntax, ok := errors.AsType[*json.SyntaxError](wrong); ok {
		at = max(int(syntax.Offset)-1, 0) // it is behind the byte that is wrong
		wrong = fmt.Errorf("%w: %w", errNoObject, wrong)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, at, cmp.Or(wrong, errNoObject)
	}
	for seen := make(map[string]bool); decoder.More(); {
		token, err := decoder.Token()
		name, isName := token.(string)
		m := member{name: name, at: int(decoder.InputOffset())}
		if err != nil || !isName {
			break
		}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			members = append(members, m) // though it is broken, it is not taken
			break
		}
		m.value = value
		if seen[name] && wrong == nil {
			return members, m.at, fmt.Errorf("%q is there twice", name)
		}
		if !seen[name] {
			members = append(members, m)
		}
		seen[name] = true
	}
	return members, at, wrong
}
