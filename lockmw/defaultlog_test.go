package lockmw_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Who has given no logger is told of mistakes of the program, each once, and of nothing else.
func TestMistakesAreLoggedWithoutALogger(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for _, tc := range []struct {
		name string
		opts []lockmw.Option
		want []string
	}{
		{"no logger", nil, []string{`ERROR LOCK_MISUSE lockmw: acquire "order:": no such parameter`}},
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
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got := log.Lines(); strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
			t.Errorf("%s: logged %q, want %q", tc.name, got, tc.want)
		}
	}
}
