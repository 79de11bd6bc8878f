package recipes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // by which it is known that PostgreSQL is there

	"github.com/lockmw/kit/internal/test/dbserver"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A service is a recipe that answers HTTP requests, and what the document says of its use.
type service struct {
	port      string // :8080
	start     command
	exchanges []exchange
}

// An exchange is one line of the document with calls of curl, and the answers that stand below it.
type exchange struct {
	line     string
	requests []request
	together bool       // they are sent at the same time, and answered in any order
	answers  [][]string // lines that curl prints; "…" stands for anything
}

// serves is in the code of each service.
var (
	serves  = regexp.MustCompile(`\bListenAndServe\(`)
	address = regexp.MustCompile(`cmp\.Or\(os\.Getenv\("ADDR"\), "(:\d+)"\)`)
)

// services returns the recipes of a document that are services, by their names.
func services(document string) (map[string]service, error) {
	found, usage := make(map[string]service), usages(document)
	for _, file := range printed.FindAllStringSubmatch(document, -1) {
		name, code := file[1], file[3]
		if !serves.MatchString(code) {
			continue
		}
		s := service{}
		if port := address.FindStringSubmatch(code); port != nil {
			s.port = port[1]
		} else {
			return nil, fmt.Errorf("%s does not listen where ADDR says", name)
		}
		if err := s.parse(usage[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found[name] = s
	}
	return found, nil
}

// parse reads how a service is used: commands are indented by four, answers by eight.
func (s *service) parse(usage string) error {
	for line := range strings.Lines(usage) {
		line = strings.TrimRight(line, "\n")
		text, indented := strings.CutPrefix(line, "    ")
		if !indented {
			continue
		}
		if answer, ok := strings.CutPrefix(text, "    "); ok {
			if len(s.exchanges) == 0 {
				return fmt.Errorf("%q answers nothing", answer)
			}
			s.exchanges[len(s.exchanges)-1].add(answer)
			continue
		}
		commands, together, err := parseLine(text)
		if err != nil {
			return err
		}
		now := exchange{line: text, together: together}
		for _, c := range commands {
			switch {
			case c.words[0] == "curl":
				r, err := parseCurl(c.words[1:])
				if err != nil {
					return err
				}
				now.requests = append(now.requests, r)
			case len(c.words) > 2 && slices.Equal(c.words[:3], []string{"go", "run", "."}) && len(commands) == 1 && s.start.words == nil:
				s.start = c
			default:
				return fmt.Errorf("it is not known what to do with %q", text)
			}
		}
		if now.requests != nil {
			s.exchanges = append(s.exchanges, now)
		}
	}
	if s.start.words == nil || s.exchanges == nil {
		return errors.New("no line says how it is started, or none asks it something")
	}
	for _, asked := range s.start.env {
		if port, ok := strings.CutPrefix(asked, "ADDR="); ok {
			s.port = port
		}
	}
	for _, e := range s.exchanges {
		if len(e.answers) != len(e.requests) {
			return fmt.Errorf("%d answers to %q", len(e.answers), e.line)
		}
		for _, r := range e.requests {
			if r.host != "localhost"+s.port {
				return fmt.Errorf("%q goes elsewhere than to %s", e.line, s.port)
			}
		}
	}
	return nil
}

// add adds a line to the answers. One that is printed whole begins with its status.
func (e *exchange) add(line string) {
	if strings.HasPrefix(line, "HTTP/") || len(e.answers) == 0 {
		e.answers = append(e.answers, nil)
	}
	last := len(e.answers) - 1
	e.answers[last] = append(e.answers[last], line)
}

// answers reports whether each line of an answer is among those that came.
func answers(came, want []string) bool {
	for _, line := range want {
		parts := strings.Split(line, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if !slices.ContainsFunc(came, regexp.MustCompile("^"+strings.Join(parts, ".*")+"$").MatchString) {
			return false
		}
	}
	return true
}

// try sends the requests of an exchange to addr. It returns an error if the answers are others than
// the document says. Streams stay open until ctx ends, beside what comes after them.
func (e exchange) try(ctx context.Context, addr, dir string) error {
	type outcome struct {
		lines []string
		err   error
	}
	ask := func(r request, want []string) outcome {
		var (
			lines []string
			early bool // a stream was answered
		)
		answered := make(chan outcome, 2) // of a stream: as soon as it is as wanted; and when it ends
		go func() {
			err := r.send(ctx, addr, dir, func(line string) {
				if lines = append(lines, line); r.stream && !early && answers(lines, want) {
					early = true
					answered <- outcome{lines: slices.Clone(lines)}
				}
			})
			answered <- outcome{lines, err}
		}()
		return <-answered
	}
	came := make([]outcome, len(e.requests))
	var all sync.WaitGroup
	for i, r := range e.requests {
		if !e.together {
			came[i] = ask(r, e.answers[i])
			continue
		}
		all.Go(func() { came[i] = ask(r, nil) })
	}
	all.Wait()
	left := slices.Clone(came)
	for i, want := range e.answers {
		at := 0
		if e.together {
			at = max(0, slices.IndexFunc(left, func(o outcome) bool { return o.err == nil && answers(o.lines, want) }))
		}
		if left[at].err != nil || !answers(left[at].lines, want) {
			return fmt.Errorf("%s\nanswers %+v, and answer %d is %q in the document", e.line, came, i+1, want)
		}
		left = slices.Delete(left, at, at+1)
	}
	return nil
}

// use starts a service and does with it what the document says.
func (s service) use(t *testing.T, m *module, name string) {
	t.Helper()
	addr := s.listen(t, m, name)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, e := range s.exchanges {
		if err := e.try(ctx, addr, filepath.Join(m.dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// listen starts a service on a port that is free, and returns its address when it can be used.
// A port that was free may be taken before it is used.
func (s service) listen(t *testing.T, m *module, name string) (addr string) {
	t.Helper()
	asked := s.environment(t)
	for range 5 {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = free.Addr().String()
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
		began := make(chan struct{})
		begins := sync.OnceFunc(func() { close(began) })
		i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
		var lines []string
		env := append(slices.Clone(asked), "ADDR="+addr, "TMPDIR="+t.TempDir())
		p := m.start(t, name, s.start.words[3:], env, func(line string) {
			lines = append(lines, line) // read when the process is gone
			if i >= 0 && programs[i].line.MatchString(line) {
				begins()
			}
		})
		if i < 0 {
			begins() // it has nothing to do before it is asked
		}
		if p.listens(addr) {
			select {
			case <-began:
				return addr
			case <-p.gone:
			}
		}
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "address already in use") }) {
			t.Fatalf("%s has ended: %q", name, lines)
		}
	}
	t.Fatalf("%s has found no port", name)
	return ""
}

// environment returns what the document starts the service with, and servers in the place of the document's: of two variables of one name, the
// last one counts.
func (s service) environment(t *testing.T) []string {
	t.Helper()
	env := append(slices.Clone(s.start.env), "REDIS_ADDR="+redistest.Real(t).Addr())
	if slices.ContainsFunc(env, func(asked string) bool { return strings.HasPrefix(asked, "DATABASE_URL=") }) {
		database := dbserver.Postgres()
		t.Cleanup(func() { database.Stop(t.Failed()) })
		env = append(env, "DATABASE_URL="+database.Source(t, ""))
	}
	return env
}

// listens returns when somebody listens at addr, or p has ended.
func (p *process) listens(addr string) bool {
	for again := time.NewTicker(5 * time.Millisecond); ; {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return true
		}
		select {
		case <-again.C:
		case <-p.gone:
			return false
		}
	}
}

// A document that says too little of a service, or something else than it does, is noticed.
func TestAServiceThatIsNotUsedIsFound(t *testing.T) {
	good := text(t)
	all, err := services(good)
	if err != nil {
		t.Fatal(err)
	}
	programsThatServe := make(map[string]bool)
	files, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(code), "ListenAndServe") {
			programsThatServe[filepath.Dir(file)] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(programsThatServe)); !slices.Equal(got, want) {
		t.Errorf("services are %q, want %q", got, want)
	}
	for name, s := range all {
		bad := good
		for _, e := range s.exchanges {
			bad = strings.ReplaceAll(bad, "    "+e.line+"\n", "")
		}
		if _, err := services(bad); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("without its calls of curl: %v, want an error of %s", err, name)
		}
	}
}

// sample is the document of a service, with what it says of its use.
func sample(usage string) string {
	return "\n**shop/main.go**\n\n```go\nfunc main() { http.ListenAndServe(cmp.Or(os.Getenv(\"ADDR\"), \":8080\"), nil) }\n```\n\n" + usage + "\n## More\n\n    other things\n"
}

func TestWhatTheDocumentSaysOfAServiceIsUnderstoodOrRefused(t *testing.T) {
	for name, tc := range map[string]struct{ usage, want string }{
		"whole":            {"    go run .\n    curl localhost:8080/\n        a\n", "<nil>"},
		"another port":     {"    ADDR=:81 go run .\n    curl localhost:81/\n        a\n", "<nil>"},
		"no start":         {"    curl localhost:8080/\n        a\n", "started"},
		"no request":       {"    go run .\n", "asks it something"},
		"no answer":        {"    go run .\n    curl localhost:8080/\n", "0 answers"},
		"an answer less":   {"    go run .\n    curl -i localhost:8080/; curl -i localhost:8080/\n        HTTP/1.1 200 OK\n        a\n", "1 answers"},
		"an answer first":  {"    go run .\n        a\n", "answers nothing"},
		"elsewhere":        {"    go run .\n    curl localhost:8081/\n        a\n", "elsewhere"},
		"an option":        {"    go run .\n    curl -L localhost:8080/\n        a\n", "-L"},
		"another command":  {"    go run .\n    wget localhost:8080/\n", "wget"},
		"started twice":    {"    go run .\n    go run .\n", "not known"},
		"a shell's quotes": {"    go run .\n    curl \"localhost:8080/\"\n        a\n", "not understood"},
	} {
		if _, err := services(sample(tc.usage)); !strings.Contains(fmt.Sprint(err), tc.want) {
			t.Errorf("%s: err = %v, want %q", name, err, tc.want)
		}
	}
	fixed := strings.ReplaceAll(sample(""), `cmp.Or(os.Getenv("ADDR"), ":8080")`, `":8080"`)
	if _, err := services(fixed); err == nil || !strings.Contains(err.Error(), "ADDR") {
		t.Errorf("a service at a fixed port: %v", err)
	}
}

// A service that answers something else than the document says is noticed.
func TestAnotherAnswerIsFound(t *testing.T) {
	pair := make(chan bool)
	shop := http.NewServeMux()
	shop.HandleFunc("POST /one", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"code":"LOCK_BUSY","more":7}`)
	})
	shop.HandleFunc("/together", func(w http.ResponseWriter, _ *http.Request) { // answers when two are here
		select {
		case pair <- true:
		case <-pair:
			w.WriteHeader(http.StatusConflict)
		}
	})
	shop.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "event: yours\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	server := httptest.NewServer(shop)
	t.Cleanup(server.Close)
	for name, tc := range map[string]struct {
		line, answer string
		bad          bool
	}{
		"as printed":     {"curl -i -X POST localhost:8080/one", "HTTP/1.1 409 Conflict|Retry-After: …|{\"code\":\"LOCK_BUSY\",…}", false},
		"another status": {"curl -i -X POST localhost:8080/one", "HTTP/1.1 200 OK", true},
		"another header": {"curl -i -X POST localhost:8080/one", "HTTP/1.1 409 Conflict|Retry-After: 6", true},
		"half a line":    {"curl -i -X POST localhost:8080/one", "HTTP/1.1 409 Conflict|{\"code\":\"LOCK_BUSY\"", true},
		"no headers":     {"curl -X POST localhost:8080/one", "Retry-After: …", true},
		"at once":        {"curl -i localhost:8080/together & curl -i localhost:8080/together", "HTTP/1.1 409 Conflict|HTTP/1.1 200 OK", false},
		"two of one":     {"curl -i localhost:8080/together & curl -i localhost:8080/together", "HTTP/1.1 200 OK|HTTP/1.1 200 OK", true},
		"a stream":       {"curl -i -N localhost:8080/stream", "HTTP/1.1 200 OK|event: yours", false},
	} {
		all, err := services(sample("    go run .\n    " + tc.line + "\n        " + strings.ReplaceAll(tc.answer, "|", "\n        ") + "\n"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = all["shop"].exchanges[0].try(t.Context(), server.Listener.Addr().String(), "")
		if (err != nil) != tc.bad {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}
