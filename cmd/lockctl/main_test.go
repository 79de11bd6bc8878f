package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var update = flag.Bool("update", false, "write the golden files anew")

// A call is one of lockctl, and what came of it.
type call struct {
	status    int
	out, errs string
}

// lockctl runs it as a user does.
func lockctl(t *testing.T, in string, args ...string) call {
	t.Helper()
	var out, errs bytes.Buffer
	number := run(t.Context(), args, strings.NewReader(in), &out, &errs)
	return call{number, out.String(), errs.String()}
}

// changing matches what differs from run to run.
var changing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`-[a-z2-7]{10}\b`), "-0123456789"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:6379"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(m?s|µs))+\b`), "1s"},
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(`\d\d:\d\d:\d\d`), "12:00:00"},
}

func masked(text string) string {
	for _, c := range changing {
		text = c.is.ReplaceAllString(text, c.as)
	}
	return text
}

// golden compares what the calls wrote with a file.
func golden(t *testing.T, name string, said string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(said), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if said != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, said, want)
	}
}

// A script is calls one after the other, as a golden file has them.
type script struct {
	strings.Builder
	t *testing.T
}

func (s *script) run(in string, args ...string) {
	s.t.Helper()
	c := lockctl(s.t, in, args...)
	fmt.Fprintf(s, "$ lockctl %s\n", masked(strings.Join(args, " ")))
	for _, part := range []struct{ name, text string }{{"", c.out}, {"stderr: ", c.errs}} {
		for line := range strings.Lines(masked(part.text)) {
			s.WriteString(part.name + strings.TrimRight(line, "\n") + "\n")
		}
	}
	fmt.Fprintf(s, "exit status %d\n\n", c.status)
}

func locker(t *testing.T, client redis.UniversalClient) *lockmw.Locker {
	t.Helper()
	l, err := lockmw.New(client, lockmw.WithInstance("web-7"), lockmw.WithNote(func(ctx context.Context) string {
		note, _ := ctx.Value(note{}).(string)
		return note
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(ended()) })
	return l
}

type note struct{}

func take(t *testing.T, l *lockmw.Locker, key, says string, p lockmw.Policy) {
	t.Helper()
	if _, _, err := l.Acquire(context.WithValue(context.Background(), note{}, says), key, p); err != nil {
		t.Fatal(err)
	}
}

// holds has one lock of each kind held, with hostile texts among them.
func holds(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	l := locker(t, client)
	take(t, l, "order:42", "GET /orders/42 \x1b[2J", lockmw.Policy{})
	take(t, l, "stock:\u202e7", "", lockmw.Policy{Mode: lockmw.Shared})
	take(t, l, "stock:\u202e7", "report", lockmw.Policy{Mode: lockmw.Shared})
	take(t, l, "mail", "", lockmw.Policy{Permits: 5})
	if err := client.SetNX(t.Context(), "lock:{cron}", "mine", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestEachCommand(t *testing.T) {
	server := redistest.Real(t)
	client := server.Client(t)
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	s := &script{t: t}
	s.run("", "ls")
	holds(t, client)
	for _, prefix := range []string{"order:", "stock:", "mail", "cron"} {
		s.run("", "ls", prefix)
		s.run("", "ls", prefix, "-o", "json")
	}
	s.run("", "ls", "none")
	s.run("", "show", "order:42")
	s.run("", "show", "mail")
	s.run("", "show", "order:42", "-o", "json")
	s.run("", "show", "order:43")
	s.run("", "release", "order:43")
	s.run("", "release", "order:42")
	s.run("n\n", "release", "order:42")
	s.run("", "show", "order:42")
	s.run("yes\n", "release", "order:42")
	s.run("", "show", "order:42")
	s.run("", "release", "-y", "mail")
	s.run("", "release", "-y", "cron", "-o", "json")
	s.run("", "doctor")
	s.run("", "doctor", "-o", "json")
	s.run("", "--namespace", "other", "ls")
	golden(t, "commands", s.String())
}

func TestMistakes(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	s := &script{t: t}
	for _, args := range [][]string{
		{"lss"}, {"show"}, {"show", "a", "b"}, {"release"}, {"ls", "a", "b"}, {"doctor", "x"}, {"ls", "--what"},
		{"ls", "-o", "xml"}, {"ls", "--redis", "localhost:6379"}, {"ls", "--redis", "redis://user:pass word@x"},
		{"ls", "--cluster", "--sentinel", "main"}, {"ls", "--namespace", "a{b"}, {"watch", "--every", "1ms"},
		{"ls", "--redis", "redis://127.0.0.1:1"}, {"doctor", "--redis", "redis://127.0.0.1:1"}, {"show", "a\nb", "--redis", "redis://127.0.0.1:1"},
	} {
		s.run("", args...)
	}
	golden(t, "mistakes", s.String())
}

func TestDoctor(t *testing.T) {
	server := redistest.Real(t)
	admin := server.Client(t)
	do := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s := &script{t: t}
	at := func(user string) string { return "redis://" + user + server.Addr() }
	do("ACL", "SETUSER", "poor", "on", ">secret", "~lock:*", "&lock:grants:*", "+@all", "-zpopmin")
	do("ACL", "SETUSER", "deaf", "on", ">secret", "~lock:*", "&lock:grants:*", "+@all", "-subscribe", "-scan")
	s.run("", "doctor", "--redis", at("poor:wrong@"))
	s.run("", "doctor", "--redis", at("poor:secret@"))
	s.run("", "doctor", "--redis", at("deaf:secret@"))
	do("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	s.run("", "doctor", "--redis", at(""))
	do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	golden(t, "doctor", s.String())
}

func TestClusterAndSentinel(t *testing.T) {
	cluster, watched := redistest.Cluster(t), redistest.Sentinel(t)
	name, sentinels := watched.Sentinels()
	for _, tc := range []struct {
		client redis.UniversalClient
		args   []string
	}{
		{cluster.Client(t), []string{"--cluster", "--redis", "redis://" + cluster.Nodes[1].Addr()}},
		{watched.Client(t), []string{"--sentinel", name, "--redis", "redis://" + sentinels[0]}},
	} {
		holds(t, tc.client)
		got := lockctl(t, "", append(tc.args, "ls")...)
		for _, key := range []string{"order:42", "stock:", "mail", "cron"} {
			if got.status != 0 || !strings.Contains(got.out, "\n"+key) {
				t.Errorf("%v: %+v has no %s", tc.args, got, key)
			}
		}
		if got := lockctl(t, "", append(tc.args, "release", "-y", "order:42")...); got.status != 0 {
			t.Errorf("%v: %+v", tc.args, got)
		}
		if got := lockctl(t, "", append(tc.args, "doctor")...); got.status != 0 {
			t.Errorf("%v: %+v", tc.args, got)
		}
	}
}

// lines tells when each line came.
type lines struct {
	mu    sync.Mutex
	first time.Time
	n     int
	seen  chan struct{} // closed when want lines have come
	want  int
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == 0 {
		l.first = time.Now()
	}
	before := l.n
	l.n += bytes.Count(b, []byte("\n"))
	if l.want > 0 && before < l.want && l.n >= l.want {
		close(l.seen)
	}
	return len(b), nil
}

func TestManyLocks(t *testing.T) {
	const locks = 100_000
	server := redistest.Real(t)
	client := server.Client(t)
	pipe := client.Pipeline()
	for i := range locks {
		pipe.Set(t.Context(), fmt.Sprintf("lock:{order:%d}", i), "web-7-0123456789.00000000-0000-4000-8000-000000000000:1", 10*time.Minute)
		if i%1000 == 999 {
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(t.Context(), "slowlog-log-slower-than", "5000").Err(); err != nil {
		t.Fatal(err)
	}
	var out lines
	began := time.Now()
	if number := run(t.Context(), []string{"ls", "--redis", "redis://" + server.Addr()}, strings.NewReader(""), &out, io.Discard); number != 0 || out.n != locks+1 {
		t.Errorf("status %d, %d lines", number, out.n)
	}
	slow, err := client.SlowLogGet(t.Context(), 10).Result()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the first line after %v, all after %v, commands over 5 ms: %d", out.first.Sub(began), time.Since(began), len(slow))
	if first := out.first.Sub(began); first > time.Second { // 100 ms where the machine does nothing else
		t.Errorf("the first line came after %v", first)
	}
	if len(slow) > 3 { // a busy machine may stop Redis in the middle of one
		t.Errorf("slow: %v", slow)
	}
}

func TestWatch(t *testing.T) {
	server := redistest.Real(t)
	l := locker(t, server.Client(t))
	take(t, l, "order:42", "", lockmw.Policy{})
	ctx, cancel := context.WithCancel(t.Context())
	out := lines{want: 6, seen: make(chan struct{})}
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"watch", "--every", "100ms", "--redis", "redis://" + server.Addr()}, strings.NewReader(""), &out, io.Discard)
	}()
	select {
	case <-out.seen:
	case <-time.After(30 * time.Second):
		t.Error("no two lists")
	}
	cancel()
	if number := <-done; number != 0 {
		t.Errorf("status %d after an interrupt", number)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := lockctl(t, "", "completion", shell); got.status != 0 || !strings.Contains(got.out, "lockctl") {
			t.Errorf("%s: %+v", shell, got)
		}
	}
	commands := slices.Collect(strings.Lines(lockctl(t, "", "__complete", "").out))
	if len(commands) < 6 {
		t.Errorf("completes %q", commands)
	}
}
