package door_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What the next call is told, when a handler has returned an error and the door has said what follows from it. The refusal of a lock that the handler has
// asked for itself does not say that it had done nothing before.
func TestWhatFollowsFromTheErrorOfAHandler(t *testing.T) {
	const kept, uncertain = "kept", "uncertain"
	refused := &lockmw.AcquireError{Key: "order", Err: lockmw.ErrNotAcquired}
	at := func(reason error) error {
		return &lockmw.AcquireError{Err: fmt.Errorf("%w: %w", lockmw.ErrNotAcquired, reason)}
	}
	bank := errors.New("the bank does not answer")
	for name, tc := range map[string]struct {
		err  error
		stop bool // the handler is told to stop before it returns
		want string
	}{
		"none":                           {nil, false, kept},
		"another":                        {bank, false, kept},
		"a refusal":                      {refused, false, kept},
		"a refusal, wrapped":             {fmt.Errorf("the order: %w", refused), false, kept},
		"a refusal, as it is recorded":   {fmt.Errorf("the order: %w", door.Recorded(refused)), false, kept},
		"a refusal at a deadline":        {at(context.DeadlineExceeded), false, kept},
		"two refusals":                   {errors.Join(refused, fmt.Errorf("the order: %w", refused)), false, kept},
		"a refusal beside another":       {errors.Join(refused, bank), false, kept},
		"another beside a refusal":       {fmt.Errorf("%w: %w", bank, refused), false, kept},
		"a refusal after the end":        {refused, true, kept}, // which a door doubts, if it is an error
		"a refusal because of the end":   {at(lockmw.ErrMaxHold), true, uncertain},
		"a refusal because of a loss":    {at(lockmw.ErrLost), false, uncertain},
		"a refusal beside a loss":        {errors.Join(refused, lockmw.ErrLost), false, uncertain},
		"a refusal for uncertain work":   {&lockmw.AcquireError{Err: lockmw.ErrUncertain}, false, uncertain},
		"a refusal beside doubtful work": {errors.Join(refused, lockmw.ErrUncertain), false, uncertain},
	} {
		locks, _ := testenv.Locker(t)
		flight := lockmw.Flight{Retain: time.Minute, Crash: lockmw.Uncertain}
		runs := 0
		call := func() error {
			_, _, err := lockmw.Do(t.Context(), locks, "k", flight, func(ctx context.Context) (string, error) {
				if runs++; runs > 1 {
					return "", nil
				}
				ctx, end := context.WithCancelCause(ctx)
				defer end(nil)
				if tc.stop {
					end(lockmw.ErrMaxHold)
				}
				door.DoubtError(ctx, tc.err)
				return "", nil
			})
			return err
		}
		if err := call(); err != nil {
			t.Errorf("%s: the first call: %v", name, err)
		}
		got := kept
		switch err := call(); {
		case errors.Is(err, lockmw.ErrUncertain):
			got = uncertain
		case err != nil:
			t.Errorf("%s: the second call: %v", name, err)
		case runs > 1:
			got = "that of the work, which was done again"
		}
		if got != tc.want {
			t.Errorf("%s: the answer is %s, want %s", name, got, tc.want)
		}
	}
}

// A jsonCodec is that of a door.
type jsonCodec struct{}

func (jsonCodec) Name() string                                { return "json" }
func (jsonCodec) Encode(_ string, answer any) ([]byte, error) { return json.Marshal(answer) }
func (jsonCodec) Decode(_ string, data []byte, to any) error  { return json.Unmarshal(data, to) }

// A layer is what stands around work.
type layer func(ctx context.Context, locks *lockmw.Locker, work func(context.Context) error) error

// byDoor is a lock that a door takes.
func byDoor(key keyfunc.Func, p lockmw.Policy) layer {
	return func(ctx context.Context, locks *lockmw.Locker, work func(context.Context) error) error {
		keys, err := keyfunc.KeysOf(key, new(door.Sample))
		lease, err := door.Acquire(ctx, locks, keys, err, p)
		if err != nil {
			return err
		}
		err = work(lease.Context())
		return errors.Join(err, door.Release(ctx, lease))
	}
}

// byProgram is a lock that is no door's, such as a leader's.
func byProgram(ctx context.Context, locks *lockmw.Locker, work func(context.Context) error) error {
	return locks.WithLock(ctx, "program", lockmw.Policy{}, work)
}

// byDo is a call of lockmw.Do.
func byDo(ctx context.Context, locks *lockmw.Locker, work func(context.Context) error) error {
	_, _, err := lockmw.Do(ctx, locks, "do", lockmw.Flight{}, func(ctx context.Context) (string, error) { return "", work(ctx) })
	return err
}

// The log says that a lock stands in front of Idempotent where a door has taken it for a single request.
func TestLockInFrontIsTold(t *testing.T) {
	one, two := keyfunc.Const("a"), keyfunc.All(keyfunc.Const("a"), keyfunc.Const("b"))
	lock := byDoor(one, lockmw.Policy{})
	permit := byDoor(keyfunc.Const("permit"), lockmw.Policy{Permits: 3})
	for name, tc := range map[string]struct {
		inFront []layer // the outermost first
		told    int
	}{
		"nothing":                {nil, 0},
		"a lock":                 {[]layer{lock}, 1},
		"a lock of two keys":     {[]layer{byDoor(two, lockmw.Policy{})}, 1},
		"a lock in shadow":       {[]layer{byDoor(one, lockmw.Policy{Shadow: true})}, 1},
		"a reader's":             {[]layer{byDoor(one, lockmw.Policy{Mode: lockmw.Shared})}, 0},
		"a reader's of two keys": {[]layer{byDoor(two, lockmw.Policy{Mode: lockmw.Shared})}, 0},
		"a permit":               {[]layer{permit}, 0},
		"the only permit":        {[]layer{byDoor(one, lockmw.Policy{Permits: 1})}, 1},
		"a lock and a permit":    {[]layer{lock, permit}, 1},
		"a permit and a lock":    {[]layer{permit, lock}, 1},
		"a lock and Do":          {[]layer{lock, byDo}, 0}, // it is in front of Do, which answers as well
		"Do and a lock":          {[]layer{byDo, lock}, 1},
		"a lock of the program":  {[]layer{byProgram}, 0},
	} {
		var log testenv.Journal
		env := testenv.New(t, redistest.Embedded(t))
		locks := env.NewLocker(log.Option())
		once, err := door.NewIdempotent(locks, lockmw.Flight{Retain: time.Minute}, jsonCodec{}, "", false)
		if err != nil {
			t.Fatal(err)
		}
		work := func(ctx context.Context) error {
			_, _, err := door.Answered(ctx, once, door.Wanted{Route: "/pay"}, func(context.Context) (string, error) { return "paid", nil })
			return err
		}
		for _, around := range slices.Backward(tc.inFront) {
			within := work
			work = func(ctx context.Context) error { return around(ctx, locks, within) }
		}
		for range 2 {
			if err := work(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		env.CloseNow(locks)
		if n := log.Count(`a lock stands in front of Idempotent, on \"/pay\"`); n != tc.told {
			t.Errorf("%s: %d lines, want %d:\n%s", name, n, tc.told, log.Text())
		}
	}
}
