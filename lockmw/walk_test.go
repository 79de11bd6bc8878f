package lockmw_test

import (
	"context"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// The way from Acquire to the socket is short, and docs/architecture.md tells it as it is.
func TestTheWayToRedis(t *testing.T) {
	const mostCalls, mostFiles = 15, 8
	way := new(walk)
	options := *redistest.Shared(t).Client(t).Options()
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return stepper{c, way}, err
	}
	client := redis.NewClient(&options)
	t.Cleanup(func() { _ = client.Close() })
	l := testenv.Open(t, client)
	key := redistest.Prefix(t)
	for range 3 { // the first goes by a script, over a connection that is set up then
		way.clear()
		mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{}))
	}
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var told, files []string
	for _, row := range regexp.MustCompile("(?m)^\\| \\d+ \\| `(.*?)` \\| (\\S+) \\|").FindAllSubmatch(text, -1) {
		told = append(told, string(row[1])+" "+string(row[2]))
		if !slices.Contains(files, string(row[2])) {
			files = append(files, string(row[2]))
		}
	}
	if !slices.Equal(way.there, told) {
		t.Errorf("the way to Redis:\n%s\nwant, as docs/architecture.md has it:\n%s", strings.Join(way.there, "\n"), strings.Join(told, "\n"))
	}
	if len(way.there) > mostCalls || len(files) > mostFiles {
		t.Errorf("%d calls through %d files, want %d and %d at most", len(way.there), len(files), mostCalls, mostFiles)
	}
	if len(way.back) > mostCalls {
		t.Errorf("the way back:\n%s", strings.Join(way.back, "\n"))
	}
	for _, step := range way.back {
		if call, _, _ := strings.Cut(step, " "); !strings.Contains(string(text), "`"+call+"`") {
			t.Errorf("docs/architecture.md does not tell of %s", call)
		}
	}
}

// A walk has the calls that led from Acquire to the first write and read on a connection
// since it was cleared, each with its file.
type walk struct {
	mu          sync.Mutex
	there, back []string
}

func (w *walk) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.there, w.back = nil, nil
}

// note keeps the calls that led here in to, if Acquire is among them.
func (w *walk) note(to *[]string) {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	var steps []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		call := f.Function[strings.LastIndex(f.Function, "/")+1:]
		steps = append(steps, call+" "+f.File)
		if call == "lockmw.(*Locker).Acquire" {
			root := strings.TrimSuffix(f.File, "lockmw/acquire.go")
			for i := range steps {
				steps[i] = strings.Replace(steps[i], " "+root, " ", 1)
			}
			slices.Reverse(steps)
			w.mu.Lock()
			defer w.mu.Unlock()
			if *to == nil {
				*to = steps
			}
			return
		}
	}
}

// A stepper is a connection that notes how its methods were called.
type stepper struct {
	net.Conn
	way *walk
}

func (s stepper) Write(b []byte) (int, error) {
	s.way.note(&s.way.there)
	return s.Conn.Write(b)
}

func (s stepper) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.way.note(&s.way.back)
	return n, err
}
