package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// asProgram is the variable with which the test's binary is lockctl.
const asProgram = "LOCKCTL_IS_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	redis.SetLogger(silent{})
	redistest.Main(m)
}

// A call is one of lockctl, and what came of it.
type call struct {
	status    status
	out, errs string
}

// lockctl runs it as a user does.
func lockctl(t *testing.T, in string, args ...string) call {
	t.Helper()
	var out, errs bytes.Buffer
	ended := run(t.Context(), args, strings.NewReader(in), &out, &errs)
	return call{ended, out.String(), errs.String()}
}

// changing matches what differs from run to run.
var changing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`-[a-z2-7]{10}\b`), "-0123456789"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:6379"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(h|m|s|ms|µs))+\b`), "1s"},
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(`\b\d{16}\b`), "1700000000000000"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "2026-11-27"},
	{regexp.MustCompile(`T\d\d:\d\d:\d\d[0-9.]*(Z|[+-]\d\d:\d\d)`), "T12:00:00Z"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d`), "12:00:00"},
}

func masked(text string) string {
	for _, c := range changing {
		text = c.is.ReplaceAllString(text, c.as)
	}
	return text
}

// A script is calls one after the other, as a golden file has them.
type script struct {
	strings.Builder

	t     *testing.T
	flags []string // which each call has, and the file has not
}

func (s *script) run(in string, args ...string) {
	s.t.Helper()
	at := 0 // flags are in front, as what a shell completes is at the end
	if len(args) > 0 && args[0] == "__complete" {
		at = 1
	}
	c := lockctl(s.t, in, slices.Concat(args[:at], s.flags, args[at:])...)
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

// cools has the key paid cool down, and the key page after two readers, with a third at work.
func cools(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	l := locker(t, client)
	done := func(key string, p lockmw.Policy) {
		t.Helper()
		p.MinHold = time.Minute
		_, lease, err := l.Acquire(context.WithValue(context.Background(), note{}, "GET /pay \x1b[2J"), key, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	done("paid", lockmw.Policy{})
	done("page", lockmw.Policy{Mode: lockmw.Shared})
	done("page", lockmw.Policy{Mode: lockmw.Shared})
	take(t, l, "page", "", lockmw.Policy{Mode: lockmw.Shared})
}

// waits has the lock shop held, and a reader, two writers of one process and one who wants a permit wait for it in this order,
// until the test ends.
func waits(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	take(t, locker(t, client), "shop", "nightly", lockmw.Policy{})
	var waiting sync.WaitGroup
	t.Cleanup(waiting.Wait)
	writers := locker(t, client)
	for i, w := range []struct {
		by     *lockmw.Locker
		policy lockmw.Policy
		note   string
	}{
		{locker(t, client), lockmw.Policy{Mode: lockmw.Shared}, "GET /shop \x1b[2J"},
		{writers, lockmw.Policy{}, "PUT /shop"},
		{writers, lockmw.Policy{}, "it rests"},
		{locker(t, client), lockmw.Policy{Permits: 3}, ""},
	} {
		w.policy.Wait = time.Hour
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), note{}, w.note))
		t.Cleanup(cancel)
		waiting.Go(func() { _, _, _ = w.by.Acquire(ctx, "shop", w.policy) })
		await.Until(t, "it waits", func() bool {
			info, err := w.by.Inspect(t.Context(), "shop")
			return err == nil && info.Waiting == i+1
		})
	}
	other := locker(t, client)
	await.Until(t, "all are told of", func() bool { // the one that rests is counted a moment late
		info, err := other.Inspect(t.Context(), "shop")
		return err == nil && info.Waiting == 4
	})
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
