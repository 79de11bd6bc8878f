package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Observers are told once of each answer whether it is kept, and of what is no answer nothing.
func TestObserversAreToldWhatIsKept(t *testing.T) {
	type world struct {
		other *lockmw.Locker
		proxy *faultproxy.Proxy
		mini  *redistest.Mini
		key   string
	}
	taken := func(ctx context.Context, w world) {
		_ = w.other.ForceRelease(context.Background(), w.key)
		<-ctx.Done()
	}
	away := func(lasts time.Duration) func(context.Context, world) {
		return func(_ context.Context, w world) {
			w.proxy.BlackHole(faultproxy.Both)
			time.AfterFunc(lasts, w.proxy.Heal)
		}
	}
	refuses := func(_ context.Context, w world) {
		w.mini.SetError("OOM command not allowed when used memory > 'maxmemory'.")
		time.AfterFunc(2*time.Second, func() { w.mini.SetError("") })
	}
	small, small2 := retained(time.Hour), uncertain
	small.MaxAnswer, small2.MaxAnswer = 3, 3
	odd, odd2 := retained(time.Hour), uncertain
	odd.Codec, odd2.Codec = brokenCodec{}, brokenCodec{}
	none := errors.New("no event")
	for _, tc := range []struct {
		name string
		how  lockmw.Flight
		does func(context.Context, world)
		ends error
		want error // of the event: nil is EventAnswerKept
		why  string
	}{
		{"it is kept", retained(time.Hour), nil, nil, nil, ""},
		{"it is kept for those who came before", retained(0), nil, nil, nil, ""},
		{"it is kept, uncertain", uncertain, nil, nil, nil, ""},
		{"it fails", retained(time.Hour), nil, errors.New("it fails"), none, ""},
		{"it fails, uncertain", uncertain, nil, errors.New("it fails"), none, ""},
		{"it does not know", uncertain, nil, lockmw.ErrUncertain, none, ""},
		{"it is no answer", retained(time.Hour), func(ctx context.Context, _ world) { lockmw.NotAnAnswer(ctx) }, nil, none, ""},
		{"it is no answer, uncertain", uncertain, func(ctx context.Context, _ world) { lockmw.NotAnAnswer(ctx) }, nil, none, ""},
		{"it is too large", small, nil, nil, lockmw.ErrAnswerTooLarge, "larger than MaxAnswer"},
		{"it is too large, uncertain", small2, nil, nil, lockmw.ErrAnswerTooLarge, "larger than MaxAnswer"},
		{"it cannot be encoded", odd, nil, nil, errBroken, "it cannot be encoded"},
		{"it cannot be encoded, uncertain", odd2, nil, nil, errBroken, "it cannot be encoded"},
		{"the lock is lost", retained(time.Hour), taken, nil, lockmw.ErrLost, "the lock was lost"},
		{"the lock is lost, uncertain", uncertain, taken, nil, nil, ""},
		{"the lock is lost without a word", retained(time.Hour), func(_ context.Context, w world) {
			w.mini.Del("lock:{" + w.key + "}")
		}, nil, lockmw.ErrLost, "the lock was lost"},
		{"Redis is away for a while", retained(time.Hour), away(2 * time.Second), nil, nil, ""},
		{"Redis is away for a while, uncertain", uncertain, away(2 * time.Second), nil, nil, ""},
		{"Redis is away for long", retained(time.Hour), away(time.Minute), nil, lockmw.ErrUnavailable, "Redis has not taken it"},
		{"Redis is away for long, uncertain", uncertain, away(time.Minute), nil, nil, ""},
		{"Redis refuses", retained(time.Hour), refuses, nil, lockmw.ErrUnavailable, "Redis has not taken it"},
		{"Redis refuses, uncertain", uncertain, refuses, nil, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				client, proxy := proxied(t, s)
				var seen events
				l := testenv.Open(t, client, seen.option())
				w := world{testenv.Open(t, s.Client(t)), proxy, s, redistest.Prefix(t)}
				if _, _, err := lockmw.Do(t.Context(), l, w.key+"warm", retained(0), func(context.Context) (int, error) { return 0, errors.New("it fails") }); err == nil {
					t.Fatal("no error") // Redis knows the scripts by now
				}
				_, _, _ = lockmw.Do(t.Context(), l, w.key, tc.how, func(ctx context.Context) (string, error) {
					if tc.does != nil {
						tc.does(ctx, w)
					}
					return "an answer", tc.ends
				})
				time.Sleep(5 * time.Minute) // of the bubble's time: all that is tried further is over
				synctest.Wait()
				kept, notKept := seen.of(lockmw.EventAnswerKept), seen.of(lockmw.EventAnswerNotKept)
				switch {
				case tc.want == none: //nolint:errorlint // it is this one
					if len(kept)+len(notKept) > 0 {
						t.Errorf("%v, %v, want no event", kept, notKept)
					}
				case tc.want == nil:
					if len(kept) != 1 || len(notKept) != 0 || kept[0].Key != w.key || kept[0].Err != nil {
						t.Errorf("%v, %v, want one EventAnswerKept", kept, notKept)
					}
				case len(kept) != 0 || len(notKept) != 1 || !errors.Is(notKept[0].Err, tc.want):
					t.Errorf("%v, %v, want one EventAnswerNotKept for %v", kept, notKept, tc.want)
				}
				if got := whyNotKept(l); got != tc.why {
					t.Errorf("operators are told %q, want %q", got, tc.why)
				}
			})
		})
	}
}

// whyNotKept is what operators are told of answers that are not kept.
func whyNotKept(l *lockmw.Locker) string {
	var all []string
	for _, i := range incidents(l) {
		if i.Kind == lockmw.EventAnswerNotKept.String() {
			all = append(all, i.Reason)
		}
	}
	return strings.Join(all, ", ")
}

var errBroken = errors.New("broken")

// A brokenCodec encodes nothing.
type brokenCodec struct{}

func (brokenCodec) Name() string { return "broken" }

func (brokenCodec) Encode(key string, _ any) ([]byte, error) {
	return nil, fmt.Errorf("%s: %w", key, errBroken)
}

func (brokenCodec) Decode(string, []byte, any) error { return errBroken }
