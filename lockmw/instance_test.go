package lockmw_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

type noteKey struct{}

// noted notes what the context carries.
func noted() lockmw.Option {
	return lockmw.WithNote(func(ctx context.Context) string {
		note, _ := ctx.Value(noteKey{}).(string)
		return note
	})
}

func TestTheHoldersNoteIsShown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		a := testenv.Open(t, s.Client(t), lockmw.WithInstance("web.1"), noted())
		b := testenv.Open(t, s.Client(t), lockmw.WithInstance("web.1"), noted())
		for name, p := range map[string]lockmw.Policy{"alone": {}, "shared": {Mode: lockmw.Shared}, "permits": {Permits: 2}} {
			p.Wait = time.Minute
			take := func(l *lockmw.Locker, note string) *lockmw.Lease {
				t.Helper()
				_, lease, err := l.Acquire(context.WithValue(context.Background(), noteKey{}, note), name, p)
				if err != nil {
					t.Fatal(err)
				}
				return lease
			}
			shows := func(l *lockmw.Locker, note string) {
				t.Helper()
				info, err := b.Inspect(context.Background(), name)
				if err != nil || len(info.Holders) != 1 || info.Holders[0].Instance != l.Instance() || info.Holders[0].Note != note {
					t.Errorf("%s: %+v, %v; want the note %q of %s", name, info, err, note, l.Instance())
				}
			}
			lease := take(a, "GET /orders/42: 日本 <b>\n")
			shows(a, "GET /orders/42: 日本 <b>\uFFFD")
			if name == "alone" { // the next one has it by a hand-over
				next := make(chan *lockmw.Lease)
				go func() { next <- take(b, "waits") }()
				synctest.Wait()
				mustRelease(t, lease)
				lease = <-next
				shows(b, "waits")
			}
			mustRelease(t, lease)
			mustRelease(t, take(a, ""))
		}
	})
}

func TestNoTwoLockersHaveOneInstance(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	seen := make(map[string]bool)
	host, _ := os.Hostname()
	for _, opts := range [][]lockmw.Option{nil, nil, {lockmw.WithInstance("pod-7")}, {lockmw.WithInstance("pod-7")}} {
		name := testenv.Open(t, c, opts...).Instance()
		want := fmt.Sprintf("%s-%d-", host, os.Getpid())
		if opts != nil {
			want = "pod-7-"
		}
		if seen[name] || !strings.HasPrefix(name, want) {
			t.Errorf("instance %q, want another one that begins with %q", name, want)
		}
		seen[name] = true
	}
}

func TestWrongInstancesAndNotes(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	for want, opt := range map[string]lockmw.Option{
		"lockmw: WithInstance: empty":                                        lockmw.WithInstance(""),
		"lockmw: WithInstance: 65 bytes are more than 64":                    lockmw.WithInstance(strings.Repeat("x", 65)),
		`lockmw: WithInstance: "a\nb" has characters that cannot be printed`: lockmw.WithInstance("a\nb"),
		`lockmw: WithInstance: "\xff" has characters that cannot be printed`: lockmw.WithInstance("\xff"),
		"lockmw: WithNote: the function is nil":                              lockmw.WithNote(nil),
	} {
		if _, err := lockmw.New(c, opt); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A note that panics ends its own call, and leaves nothing behind.
func TestANoteThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l := testenv.Open(t, s.Client(t), lockmw.WithNote(func(ctx context.Context) string {
			if ctx.Value(noteKey{}) != nil {
				panic("ouch")
			}
			return ""
		}))
		bad := context.WithValue(context.Background(), noteKey{}, "x")
		for name, call := range map[string]func(){
			"Acquire":    func() { _, _, _ = l.Acquire(bad, "k", patient) },
			"AcquireAll": func() { _, _, _ = l.AcquireAll(bad, []string{"k", "l"}, patient) },
		} {
			func() {
				defer func() {
					if recover() != "ouch" {
						t.Errorf("%s did not panic", name)
					}
				}()
				call()
			}()
		}
		mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
		mustRelease(t, mustAcquire(t, l, "l", lockmw.Policy{}))
		closesSoon(t, l)
		time.Sleep(5 * time.Second) // a fence stays for a moment
		if n := len(s.Keys()); n != 0 {
			t.Errorf("left: %q", s.Keys())
		}
	})
}
