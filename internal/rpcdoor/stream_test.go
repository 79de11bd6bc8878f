package rpcdoor_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const method = "/elsewhere.Stream/Chat"

// noHeaders are those of a call that has none.
type noHeaders struct{}

func (noHeaders) Values(context.Context, string) []string { return nil }

// A calledStream is a stream without a framework: what became of it.
type calledStream struct {
	log     []func(*rpcdoor.Options)
	ended   bool // the handler's answer is not the call's
	refused error
}

var errStatus = errors.New("a status")

// run runs handler as that of a stream whose key is read by key.
func (c *calledStream) run(t *testing.T, locks *lockmw.Locker, key keyfunc.Func, handler func(*rpcdoor.Stream) error) error {
	t.Helper()
	words := rpcdoor.Words{Package: "rpcdoor", Constructor: "New"}
	d := rpcdoor.New(rpcdoor.NewOptions(words, c.log), locks, rpcdoor.Rules{method: {Key: key}})
	return d.Stream(d.Find(t.Context(), method), rpcdoor.StreamCall{
		Call:   rpcdoor.Call{Context: t.Context(), Method: method, Headers: noHeaders{}},
		Inner:  t.Context(),
		Status: func(lockmw.Refusal) error { return errStatus },
		Refuse: func(err error) error {
			c.refused = err
			return errStatus
		},
		Unlocked: func() error { return errors.New("it runs without a lock") },
		Locked:   handler,
		End:      func(refused bool) { c.ended = refused },
	})
}

// message is what the streams receive.
func message(m any) error {
	m.(*wrapperspb.StringValue).Value = "42"
	return nil
}

func TestStreamIsLockedByItsFirstMessage(t *testing.T) {
	locks, _ := testenv.Locker(t)
	contexts := make(chan context.Context, 1)
	var c calledStream
	err := c.run(t, locks, keyfunc.Body("value"), func(s *rpcdoor.Stream) error {
		ctx := s.Context()
		contexts <- ctx
		if _, locked := lockmw.FromContext(ctx); locked {
			t.Error("it is locked before its first message")
		}
		if err := s.Receive(new(wrapperspb.StringValue), message); err != nil {
			return err
		}
		if lease, locked := lockmw.FromContext(s.Context()); !locked || lease.Key() != "42" || s.Context() != ctx {
			t.Errorf("after the first message: locked %v; the same context %v", locked, s.Context() == ctx)
		}
		return s.Receive(new(wrapperspb.StringValue), func(any) error { return io.EOF })
	})
	if !errors.Is(err, io.EOF) || c.ended || c.refused != nil {
		t.Errorf("the stream ends with %v, refused %v: %v", err, c.ended, c.refused)
	}
	if cause := context.Cause(<-contexts); !errors.Is(cause, lockmw.ErrReleased) {
		t.Errorf("its context ends with %v", cause)
	}
}

func TestStreamWithoutAMessageIsRefused(t *testing.T) {
	locks, _ := testenv.Locker(t)
	var c calledStream
	err := c.run(t, locks, keyfunc.Body("value"), func(s *rpcdoor.Stream) error {
		_ = s.Receive(new(wrapperspb.StringValue), func(any) error { return io.EOF })
		return nil // as if nothing had been
	})
	if !errors.Is(err, errStatus) || !c.ended || !errors.Is(c.refused, lockmw.ErrInvalidKey) {
		t.Errorf("the stream ends with %v, refused %v: %v", err, c.ended, c.refused)
	}
}

// Work that is done without its lock is told of, once for each method.
func TestHandlerThatReceivesNothingIsReported(t *testing.T) {
	receive := func(s *rpcdoor.Stream) error { return s.Receive(new(wrapperspb.StringValue), message) }
	for name, tc := range map[string]struct {
		handler func(*rpcdoor.Stream) error
		want    int
	}{
		"nothing received": {func(*rpcdoor.Stream) error { return nil }, 1},
		"received":         {receive, 0},
		"failed":           {func(*rpcdoor.Stream) error { return errStatus }, 0},
		"lost interest": {func(s *rpcdoor.Stream) error {
			_ = s.Receive(new(wrapperspb.StringValue), func(any) error { return io.EOF })
			return nil
		}, 0},
	} {
		locks, _ := testenv.Locker(t)
		var log bytes.Buffer
		c := calledStream{log: []func(*rpcdoor.Options){rpcdoor.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}}
		for range 2 {
			_ = c.run(t, locks, keyfunc.Body("value"), tc.handler)
		}
		if got := strings.Count(log.String(), "method="+method); got != tc.want {
			t.Errorf("%s: it is reported %d times, want %d:\n%s", name, got, tc.want, &log)
		}
	}
}
