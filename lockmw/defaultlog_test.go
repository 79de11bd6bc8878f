package lockmw_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Who has given no logger is told of mistakes of the program and of uncertain work, each once, and of nothing else.
func TestMistakesAreLoggedWithoutALogger(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for _, tc := range []struct {
		name string
		opts []lockmw.Option
		want []string
	}{
		{"no logger", nil, []string{
			`ERROR LOCK_MISUSE lockmw: acquire "order:": no such parameter`,
			`ERROR IDEMPOTENCY_UNCERTAIN lockmw: `,
		}},
		{"silenced", []lockmw.Option{lockmw.WithLogger(slog.New(slog.DiscardHandler))}, nil},
	} {
		var log testenv.Log
		slog.SetDefault(slog.New(&log))
		client := redistest.Embedded(t).Client(t)
		l, err := lockmw.New(client, tc.opts...)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		p := lockmw.Policy{Prefix: "order:"}
		_, lease, err := l.Acquire(ctx, "42", p)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Acquire(ctx, "42", p); err == nil { // contention
			t.Error("the key is acquired twice")
		}
		_ = l.Refuse(ctx, p, fmt.Errorf("%w: no header", lockmw.ErrInvalidKey)) // the client's mistake
		for range 3 {
			_ = l.Refuse(ctx, p, fmt.Errorf("no such parameter"))
		}
		_ = lease.Release(ctx)
		for range 3 { // the first is told when it happens
			_, _, _ = lockmw.Do(ctx, l, "43", lockmw.Flight{Policy: p, Retain: time.Minute, Crash: lockmw.Uncertain}, func(context.Context) (int, error) { return 0, lockmw.ErrUncertain })
		}
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		got := log.Lines()
		for i := range got { // the id and the time of the work are its own
			got[i], _, _ = strings.Cut(got[i], "it is not known")
		}
		if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
			t.Errorf("%s: logged %q, want %q", tc.name, got, tc.want)
		}
	}
}
