package recipes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A request is what one call of curl sends.
type request struct {
	method string
	host   string // localhost:8080
	path   string // /orders/42/pay
	header http.Header
	body   string
	file   string // that is the body; empty: body is
	whole  bool   // the status and the headers of the answer are printed, too
	stream bool   // its answer is printed as it comes, and does not end
}

// options are those of curl that the document uses, and what each does with its argument.
// A nil function needs none.
var options = map[string]func(r *request, argument string) error{
	"-i": nil,
	"-N": nil,
	"-X": func(r *request, method string) error {
		r.method = method
		return nil
	},
	"-H": func(r *request, header string) error {
		name, value, ok := strings.Cut(header, ": ")
		if !ok {
			return fmt.Errorf("%q is no header", header)
		}
		r.header.Set(name, value)
		return nil
	},
	"-u": func(r *request, user string) error {
		name, password, ok := strings.Cut(user, ":")
		if !ok {
			return fmt.Errorf("curl would ask for the password of %q", user)
		}
		basic := http.Request{Header: r.header}
		basic.SetBasicAuth(name, password)
		return nil
	},
	"-d": func(r *request, body string) error {
		if r.body != "" || strings.HasPrefix(body, "@") {
			return errors.New("-d is understood once, and without a file")
		}
		r.body = body
		return nil
	},
	"-T": func(r *request, file string) error {
		if !filepath.IsLocal(file) || file == "-" {
			return fmt.Errorf("%q is no file of the recipe", file)
		}
		r.file = file
		return nil
	},
}

// parseCurl returns what curl sends that is called with these arguments.
func parseCurl(arguments []string) (request, error) {
	r := request{header: make(http.Header)}
	for i := 0; i < len(arguments); i++ {
		word := arguments[i]
		if !strings.HasPrefix(word, "-") {
			if r.host != "" {
				return r, fmt.Errorf("%q is a second address", word)
			}
			var path string
			if r.host, path, _ = strings.Cut(word, "/"); r.host == "" || strings.ContainsAny(word, "[]{}") || strings.Contains(word, "://") {
				return r, fmt.Errorf("%q is no address such as localhost:8080/path", word)
			}
			r.path = "/" + path
			continue
		}
		option, known := options[word]
		if !known {
			return r, fmt.Errorf("the option %s of curl is not understood", word)
		}
		if option == nil {
			r.whole, r.stream = r.whole || word == "-i", r.stream || word == "-N"
			continue
		}
		if i++; i == len(arguments) {
			return r, fmt.Errorf("%s has no argument", word)
		}
		if err := option(&r, arguments[i]); err != nil {
			return r, err
		}
	}
	switch {
	case r.host == "":
		return r, errors.New("curl is given no address")
	case r.file != "" && r.body != "":
		return r, errors.New("curl takes one of -T and -d")
	case r.file != "" && strings.HasSuffix(r.path, "/"):
		return r, errors.New("curl would put the name of the file behind the address")
	}
	if r.body != "" && r.header.Get("Content-Type") == "" {
		r.header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if r.file != "" {
		r.header.Set("Expect", "100-continue")
	}
	if r.method == "" {
		switch {
		case r.file != "":
			r.method = http.MethodPut
		case r.body != "":
			r.method = http.MethodPost
		default:
			r.method = http.MethodGet
		}
	}
	return r, nil
}

// send sends the request to addr, and tells each line that curl would print, until there are no more.
// Files are those of dir.
func (r request) send(ctx context.Context, addr, dir string, told func(line string)) error {
	content := []byte(r.body)
	if r.file != "" {
		var err error
		if content, err = os.ReadFile(filepath.Join(dir, r.file)); err != nil {
			return err
		}
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, "http://"+addr+r.path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	sent.Host, sent.Header = r.host, maps.Clone(r.header)
	sent.Header.Set("User-Agent", "curl")
	sent.Header.Set("Accept", "*/*")
	connection := http.Transport{DisableCompression: true, ExpectContinueTimeout: time.Second} // as curl waits
	defer connection.CloseIdleConnections()                                                    // each curl has one of its own
	answer, err := connection.RoundTrip(sent)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if r.whole {
		told(answer.Proto + " " + answer.Status)
		for _, name := range slices.Sorted(maps.Keys(answer.Header)) {
			told(name + ": " + strings.Join(answer.Header[name], ", "))
		}
	}
	body := bufio.NewScanner(answer.Body)
	for body.Scan() {
		told(body.Text())
	}
	return body.Err()
}

// A command is what one line of a terminal has between two signs such as ";".
type command struct {
	env   []string // NAME=value, in front
	words []string
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// parseLine returns the commands of a line, and whether they run together ("&") or one after the
// other (";"). Of what a shell understands it knows words, single quotes, and comments.
func parseLine(line string) (commands []command, together bool, err error) {
	var (
		now    command
		word   strings.Builder
		inWord bool
		signs  string
	)
	endWord := func() {
		if inWord && len(now.words) == 0 && assignment.MatchString(word.String()) {
			now.env = append(now.env, word.String())
		} else if inWord {
			now.words = append(now.words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(now.words) > 0 {
			commands = append(commands, now)
		}
		now = command{}
	}
	for rest := line; rest != ""; {
		c := rest[:1]
		rest = rest[1:]
		switch {
		case c == "'":
			quoted, after, closed := strings.Cut(rest, "'")
			if !closed {
				return nil, false, fmt.Errorf("%q has a quote that does not end", line)
			}
			word.WriteString(quoted)
			inWord, rest = true, after
		case c == " ":
			endWord()
		case c == "#" && !inWord:
			rest = ""
		case c == ";" || c == "&":
			endCommand()
			signs += c
		case strings.Contains("\"\\$`|<>()*?!~", c): //nolint:gocritic // c is one character of the line
			return nil, false, fmt.Errorf("%q has a %s, which is not understood", line, c)
		default:
			word.WriteString(c)
			inWord = true
		}
	}
	endCommand()
	if len(signs) >= len(commands) && signs != "" || strings.Contains(signs, ";") && strings.Contains(signs, "&") {
		return nil, false, fmt.Errorf("%q: which commands run together is not understood", line)
	}
	return commands, strings.Contains(signs, "&"), nil
}

func TestCurlIsParsed(t *testing.T) {
	for line, want := range map[string]request{
		"curl localhost:8081/metrics":      {method: "GET", host: "localhost:8081", path: "/metrics"},
		"curl -i -N localhost:8080 # here": {method: "GET", host: "localhost:8080", path: "/", whole: true, stream: true},
		"curl -u ann:x -X DELETE localhost:8080/a": {method: "DELETE", host: "localhost:8080", path: "/a",
			header: http.Header{"Authorization": {"Basic YW5uOng="}}},
		`curl -H 'Content-Type: application/json' -d '{"a": "b;c"}' localhost:8080/a`: {method: "POST", host: "localhost:8080", path: "/a",
			header: http.Header{"Content-Type": {"application/json"}}, body: `{"a": "b;c"}`},
		"curl -d a=b localhost:8080/a": {method: "POST", host: "localhost:8080", path: "/a",
			header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, body: "a=b"},
		"curl -T main.go localhost:8080/files/b": {method: "PUT", host: "localhost:8080", path: "/files/b",
			header: http.Header{"Expect": {"100-continue"}}, file: "main.go"},
	} {
		commands, together, err := parseLine(line)
		if err != nil || together || len(commands) != 1 || commands[0].words[0] != "curl" {
			t.Errorf("%s: %v, %v, %v", line, commands, together, err)
			continue
		}
		if want.header == nil {
			want.header = http.Header{}
		}
		if got, err := parseCurl(commands[0].words[1:]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, %v, want\n%+v", line, got, err, want)
		}
	}
}

func TestWhatCurlWouldDoOtherwiseIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"curl -L localhost:8080/":            "-L",
		"curl -iX POST localhost:8080/":      "-iX",
		"curl --data a localhost:8080/":      "--data",
		"curl localhost:8080/ -H":            "no argument",
		"curl -H Accept localhost:8080/":     "no header",
		"curl -u ann localhost:8080/":        "password",
		"curl -d @main.go localhost:8080/":   "without a file",
		"curl -d a -d b localhost:8080/":     "once",
		"curl -T - localhost:8080/a":         "no file",
		"curl -T ../a localhost:8080/a":      "no file",
		"curl -T main.go localhost:8080/a/":  "name of the file",
		"curl -T main.go -d a localhost:8/a": "one of",
		"curl -i":                            "no address",
		"curl localhost:8/ localhost:8/":     "second address",
		"curl https://localhost:8080/":       "no address such as",
		"curl localhost:8080/[1-3]":          "no address such as",
		"curl 'localhost:8080/":              "quote",
		`curl "localhost:8080/"`:             "not understood",
		"curl localhost:$PORT/":              "not understood",
		"curl localhost:8080/ | jq":          "not understood",
		"curl localhost:8080/ && curl a":     "run together",
		"curl localhost:8080/ &":             "run together",
		"curl a; curl b & curl c":            "run together",
	} {
		commands, _, err := parseLine(line)
		for _, c := range commands {
			_, refused := parseCurl(c.words[1:])
			err = errors.Join(err, refused)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want one of %q", line, err, want)
		}
	}
}

func TestALineOfATerminalIsParsed(t *testing.T) {
	for line, want := range map[string]struct {
		commands []command
		together bool
	}{
		"ADDR=:8081 B=c go run . -leader  # one": {[]command{{env: []string{"ADDR=:8081", "B=c"}, words: []string{"go", "run", ".", "-leader"}}}, false},
		"a 'b c'd; e A=b":                        {[]command{{words: []string{"a", "b cd"}}, {words: []string{"e", "A=b"}}}, false},
		"a & b & c":                              {[]command{{words: []string{"a"}}, {words: []string{"b"}}, {words: []string{"c"}}}, true},
		"a '' b#c":                               {[]command{{words: []string{"a", "", "b#c"}}}, false},
		"# nothing":                              {nil, false},
	} {
		commands, together, err := parseLine(line)
		if err != nil || together != want.together || !reflect.DeepEqual(commands, want.commands) {
			t.Errorf("%s: %q, %v, %v, want %q, %v", line, commands, together, err, want.commands, want.together)
		}
	}
}

// The parser knows the options of the document, and no others: what nobody uses is not tried.
func TestTheOptionsOfCurlAreThoseOfTheDocument(t *testing.T) {
	used := make(map[string]bool)
	for line := range strings.Lines(text(t)) {
		if !strings.Contains(line, "curl ") || !strings.HasPrefix(line, "    ") {
			continue
		}
		commands, _, err := parseLine(strings.TrimSpace(line))
		if err != nil {
			t.Error(err)
		}
		for _, c := range commands {
			for _, word := range c.words {
				if c.words[0] == "curl" && strings.HasPrefix(word, "-") {
					used[word] = true
				}
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(options)); !slices.Equal(got, want) {
		t.Errorf("the document uses %q of curl's options, and %q are understood", got, want)
	}
}
