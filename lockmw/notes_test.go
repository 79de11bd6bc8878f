package lockmw_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// instanceEnv has a process of this test tell its instance, and end.
const instanceEnv = "LOCKMW_TELL_INSTANCE"

func tellInstance(string) error {
	client := redis.NewClient(redistest.Options("127.0.0.1:1")) // which is not asked
	defer client.Close()
	l, err := lockmw.New(client)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, l.Instance())
	return l.Close(context.Background())
}

func TestNoTwoProcessesHaveOneInstance(t *testing.T) {
	t.Parallel()
	const processes = 12
	var outs [processes]bytes.Buffer
	var cmds []*exec.Cmd
	for i := range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), instanceEnv+"=1")
		cmd.Stdout, cmd.Stderr = &outs[i], os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	seen := make(map[string]bool)
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSpace(outs[i].String())
		if want := fmt.Sprintf("-%d-", cmd.Process.Pid); seen[name] || !strings.Contains(name, want) {
			t.Errorf("process %d is called %q, which is taken or has no %s", i, name, want)
		}
		seen[name] = true
	}
}

// Whatever a program notes, tokens stay what scripts can read, and clients are not told.
func TestHostileNotes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		const mark = "MARK"
		for name, note := range map[string]string{
			"long":            mark + strings.Repeat("x", 10<<10),
			"long characters": mark + strings.Repeat("日本", 5<<10),
			"newlines":        mark + "\r\n\n$5\r\nhello\r\n",
			"NUL":             mark + "\x00\x00:1",
			"no UTF-8":        "\xff\xfe" + mark + "\xc3\x28\xf0",
			"markup":          mark + `<script>alert("1")</script>&amp;'`,
			"separators":      mark + ":=. ~!*{}.00000000-0000-4000-8000-000000000000.x:1 2 3:~1",
			"escapes":         mark + "%00%zz%25%",
			"a terminal":      mark + "\x1b[2J\u202e\u200b\u2028",
			"empty":           "",
		} {
			t.Run(name, func(t *testing.T) {
				ns := lockmw.WithNamespace(redistest.Prefix(t))
				says := lockmw.WithNote(func(context.Context) string { return note })
				a, b := testenv.Open(t, s.Client(t), ns, says), testenv.Open(t, s.Client(t), ns, says)
				for mode, p := range map[string]lockmw.Policy{"alone": otherTTL, "shared": {Mode: lockmw.Shared}, "permits": {Permits: 1, Wait: otherTTL.Wait}} {
					lease := mustAcquire(t, a, mode, p)
					wantNote(t, b, mode, a.Instance(), note)
					if p.Mode == lockmw.Shared {
						p.Mode, p.Wait = lockmw.Exclusive, otherTTL.Wait // who waits for readers
					}
					next := lineUp(t, b, mode, p, 1)
					_, _, refused := a.Acquire(t.Context(), mode, lockmw.Policy{})
					if told, _ := lockmw.RefusalOf(refused); refused == nil || strings.Contains(fmt.Sprint(refused, told), mark) {
						t.Errorf("%s: a refusal has the note: %v, %v", mode, refused, told)
					}
					mustRelease(t, lease)
					lease = <-next
					wantNote(t, a, mode, b.Instance(), note)
					mustRelease(t, lease)
				}
				var info lockmw.Info
				err := answered(func() (err error) {
					info, err = a.Inspect(t.Context(), "alone")
					return err
				})
				if err != nil || info.Held || info.Waiting != 0 {
					t.Errorf("after all: %+v, %v", info, err)
				}
			})
		}
	})
}

// wantNote wants a lock held by an instance, with what can be shown of a note.
func wantNote(t *testing.T, by *lockmw.Locker, key, instance, note string) {
	t.Helper()
	var info lockmw.Info
	err := answered(func() (err error) {
		info, err = by.Inspect(t.Context(), key)
		return err
	})
	if err != nil || len(info.Holders) != 1 || info.Holders[0].Instance != instance {
		t.Errorf("%s: %+v, %v; want one holder, %s", key, info, err, instance)
		return
	}
	got := info.Holders[0].Note
	if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }) {
		t.Errorf("%s: the note %q cannot be shown", key, got)
	}
	shown := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}
	if whole := strings.Map(shown, note); len(note) <= 128 && got != whole || !strings.HasPrefix(whole, got) || len(note) > 128 && utf8.RuneCountInString(got) < 40 {
		t.Errorf("%s: the note is %q, want %q or its beginning", key, got, whole)
	}
}

// A note is for operators.
func TestNoAnswerHasANote(t *testing.T) {
	s := redistest.Embedded(t)
	l := testenv.Open(t, s.Client(t), lockmw.WithInstance("MARK-1"), lockmw.WithNote(func(context.Context) string { return "MARK" }))
	lock := httplock.Middleware(l, keyfunc.Const("k"), lockmw.Policy{})
	ask := func() string {
		w := httptest.NewRecorder()
		lock(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") })).
			ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		return fmt.Sprint(w.Code, w.Header(), w.Body)
	}
	if got := ask(); strings.Contains(got, "MARK") {
		t.Errorf("an answer has the note or the instance: %s", got)
	}
	lease := mustAcquire(t, l, "k", lockmw.Policy{})
	if got := ask(); strings.Contains(got, "MARK") || !strings.HasPrefix(got, "409") {
		t.Errorf("a refusal has the note or the instance: %s", got)
	}
	mustRelease(t, lease)
}

// A note that blocks holds up its own call alone.
func TestANoteThatBlocks(t *testing.T) {
	s := redistest.Embedded(t)
	begun, end := make(chan struct{}), make(chan struct{})
	unblock := sync.OnceFunc(func() { close(end) })
	defer unblock()
	l := testenv.Open(t, s.Client(t), lockmw.WithNote(func(ctx context.Context) string {
		if ctx.Value(noteKey{}) != nil {
			close(begun)
			<-end
		}
		return ""
	}))
	blocked := make(chan error)
	go func() {
		_, _, err := l.Acquire(context.WithValue(context.Background(), noteKey{}, "x"), "k", patient)
		blocked <- err
	}()
	<-begun
	mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
	closesSoon(t, l)
	unblock()
	if err := <-blocked; !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("the blocked call ends with %v, want %v", err, lockmw.ErrClosed)
	}
}
