package lockmw_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// uncertain is a flight whose work is not done again where nobody knows of it.
var uncertain = lockmw.Flight{
	Policy: lockmw.Policy{TTL: 3 * time.Second, Wait: 30 * time.Second}, Retain: time.Hour, Crash: lockmw.Uncertain,
}

// pays is a function of Do with that answer.
func pays(answer string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return answer, nil }
}

// wantUncertain checks that a call is told of work that was begun, and returns its id.
func wantUncertain(t *testing.T, l *lockmw.Locker, key string, f lockmw.Flight) string {
	t.Helper()
	answer, shared, err := lockmw.Do(context.Background(), l, key, f, pays("again"))
	var of *lockmw.UncertainError
	var refused *lockmw.AcquireError
	switch {
	case !errors.Is(err, lockmw.ErrUncertain), !errors.As(err, &of), !errors.As(err, &refused), answer != "", shared:
		t.Fatalf("Do = %q, %v, %v, want ErrUncertain", answer, shared, err)
	case of.Key != f.Policy.Prefix+key, of.ID == "", of.Since.After(time.Now()), time.Since(of.Since) > 24*time.Hour:
		t.Errorf("%+v", of)
	case refused.RetryAfter != 0:
		t.Errorf("ask again after %v", refused.RetryAfter)
	}
	return of.ID
}

func wantAnswer(t *testing.T, l *lockmw.Locker, key string, f lockmw.Flight, want string) {
	t.Helper()
	if answer, shared, err := lockmw.Do(context.Background(), l, key, f, pays("another")); answer != want || !shared || err != nil {
		t.Errorf("Do = %q, %v, %v, want %q of another call", answer, shared, err, want)
	}
}

// panics calls Do with a function that ends without an answer and without an error.
func panics(t *testing.T, l *lockmw.Locker, key string, f lockmw.Flight) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	answer, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (string, error) { panic("in the middle of it") })
	t.Errorf("Do = %q, %v", answer, err)
}

// The answer is kept as without Uncertain, and one that failed is as if it had not begun.
func TestUncertainWorkThatIsDone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		declined := errors.New("declined")
		if _, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(context.Context) (string, error) { return "", declined }); !errors.Is(err, declined) {
			t.Error(err)
		}
		answer, _, err := lockmw.Do(context.Background(), other, key, uncertain, func(ctx context.Context) (string, error) {
			lockmw.NotAnAnswer(ctx)
			return "busy", nil
		})
		if answer != "busy" || err != nil {
			t.Errorf("Do = %q, %v", answer, err)
		}
		if answer, shared, err := lockmw.Do(context.Background(), l, key, uncertain, pays("paid")); answer != "paid" || shared || err != nil {
			t.Errorf("Do = %q, %v, %v", answer, shared, err)
		}
		wantAnswer(t, other, key, uncertain, "paid")
	})
}

// Work that ended in the middle is not done again: not by those who wait, not by those who come later, whatever they say of crashes.
func TestUncertainWorkThatEndedInTheMiddle(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		panics(t, l, key, uncertain)
		id := wantUncertain(t, other, key, uncertain)
		again := uncertain
		again.Crash = lockmw.RunAgain
		if is := wantUncertain(t, l, key, again); is != id {
			t.Errorf("work %s, and before %s", is, id)
		}
		byOther := uncertain
		byOther.Fingerprint = []byte("another body")
		if _, _, err := lockmw.Do(context.Background(), l, key, byOther, pays("another")); !errors.Is(err, lockmw.ErrOtherRequest) {
			t.Errorf("%v, want ErrOtherRequest", err)
		}
		lease := mustAcquire(t, l, key, uncertain.Policy) // a plain call works as always
		mustRelease(t, lease)
		if lies := s.Client(t).PTTL(context.Background(), "lock:{"+key+"}:answer").Val(); lies > 7*24*time.Hour || lies < 7*24*time.Hour-time.Minute {
			t.Errorf("the intent lies there for %v", lies)
		}
	})
}

// The intent lies there for as long as the flight says, however long an answer would be kept.
func TestUncertainFor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key, f := redistest.Prefix(t), uncertain
		f.Retain, f.UncertainFor = time.Second, time.Minute
		l := testenv.Open(t, s.Client(t))
		panics(t, l, key, f)
		time.Sleep(59 * time.Second)
		wantUncertain(t, l, key, f)
		time.Sleep(2 * time.Second)
		if answer, shared, err := lockmw.Do(context.Background(), l, key, f, pays("paid")); answer != "paid" || shared || err != nil {
			t.Errorf("Do = %q, %v, %v", answer, shared, err)
		}
		for name, f := range map[string]lockmw.Flight{
			"no Retain": {Crash: lockmw.Uncertain}, "below 0": {Retain: time.Hour, Crash: lockmw.Uncertain, UncertainFor: -1},
			"no unit": {Retain: time.Hour, Crash: lockmw.Uncertain, UncertainFor: 7}, "not longer than the TTL": {Retain: time.Hour, Crash: lockmw.Uncertain, UncertainFor: 30 * time.Second}, "another Crash": {Retain: time.Hour, Crash: 2},
		} {
			if err := l.ValidateFlight(f); !errors.Is(err, lockmw.ErrInvalidPolicy) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A function that does not know itself says so.
func TestUncertainWorkThatSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		_, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(context.Context) (string, error) {
			return "", errors.Join(errors.New("the bank has not answered"), lockmw.ErrUncertain)
		})
		if !errors.Is(err, lockmw.ErrUncertain) {
			t.Error(err)
		}
		wantUncertain(t, l, key, uncertain)
	})
}

// Who waits when the owner's process dies is told, and so is all its flight.
func TestUncertainWorkWhoseProcessDies(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		began := make(chan struct{})
		first := make(chan error, 1)
		go func() {
			_, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(ctx context.Context) (string, error) {
				close(began)
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			first <- err
		}()
		<-began
		proxy.Refuse(true)
		proxy.Cut()
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() {
				_, _, err := lockmw.Do(context.Background(), other, key, uncertain, pays("again"))
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, lockmw.ErrUncertain) {
				t.Errorf("who waits: %v, want ErrUncertain", err)
			}
		}
		if err := <-first; !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("the owner: %v, want ErrLost", err)
		}
		wantUncertain(t, other, key, uncertain)
	})
}

// An owner that has lost its lock in the middle may complete its work, since nobody else does it, until somebody has resolved it.
func TestUncertainWorkIsCompletedAfterALoss(t *testing.T) {
	for name, tc := range map[string]struct {
		resolution lockmw.Resolution // what somebody says meanwhile; the zero one: nobody says anything
		lost       bool              // the call is told that its own answer is not the one that others get
		others     string            // their answer; empty: ErrAnswerNotKept
	}{
		"nobody has resolved it":           {lockmw.Resolution{}, false, "paid"},
		"it is to be done again":           {lockmw.Again, true, "again"},
		"nobody is to do it":               {lockmw.Discard, true, ""},
		"it was done, with that answer":    {lockmw.Done("paid"), false, "paid"},
		"it was done, with another answer": {lockmw.Done("looked up"), true, "looked up"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				var seen events
				l, other := testenv.Open(t, s.Client(t), seen.option()), testenv.Open(t, s.Client(t))
				answer, shared, err := lockmw.Do(context.Background(), l, key, uncertain, func(ctx context.Context) (string, error) {
					if err := other.ForceRelease(context.Background(), key); err != nil {
						t.Error(err)
					}
					<-ctx.Done()
					id := wantUncertain(t, other, key, uncertain)
					if name != "nobody has resolved it" {
						if err := other.Resolve(context.Background(), key, id, tc.resolution); err != nil {
							t.Error(err)
						}
					}
					return "paid", nil
				})
				if answer != "paid" || shared || errors.Is(err, lockmw.ErrLost) != tc.lost || !tc.lost && err != nil {
					t.Errorf("Do = %q, %v, %v", answer, shared, err)
				}
				synctest.Wait() // the observers are told of a loss in the background
				if n := len(seen.of(lockmw.EventLost)); n != 1 {
					t.Errorf("%d EventLost, want 1", n)
				}
				answer, shared, err = lockmw.Do(context.Background(), other, key, uncertain, pays("again"))
				if answer != tc.others || shared != (tc.others != "again" && tc.others != "") || errors.Is(err, lockmw.ErrAnswerNotKept) != (tc.others == "") {
					t.Errorf("Do of another = %q, %v, %v, want %q", answer, shared, err, tc.others)
				}
			})
		})
	}
}

// Redis is away when the work is to be noted, or when it ends: nothing is taken for uncertain that was not begun, and no answer is forgotten.
func TestUncertainWorkWhileRedisIsAway(t *testing.T) {
	for name, away := range map[string]func(*faultproxy.Proxy){
		"silent":       func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.Both) },
		"cut":          func(p *faultproxy.Proxy) { p.Refuse(true); p.Cut() },
		"no replies":   func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.ToClient) },
		"a lost reply": func(p *faultproxy.Proxy) { p.DropReplies(1, faultproxy.Match("EVALSHA")) },
	} {
		for _, fails := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *redistest.Mini) {
					key := redistest.Prefix(t)
					client, proxy := proxied(t, s)
					l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
					f := uncertain
					f.Policy.TTL = 6 * time.Second
					for _, end := range []error{nil, errors.New("it fails")} { // Redis knows the scripts then
						_, _, _ = lockmw.Do(context.Background(), l, key+"warm", f, func(context.Context) (string, error) { return "", end })
					}
					declined := errors.New("declined")
					answer, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (string, error) {
						away(proxy)
						if fails {
							return "", declined
						}
						return "paid", nil
					})
					if answer != "paid" && !fails || errors.Is(err, declined) != fails {
						t.Errorf("Do = %q, %v", answer, err)
					}
					time.AfterFunc(2*time.Second, func() { proxy.Refuse(false); proxy.Heal() })
					answer, shared, err := lockmw.Do(context.Background(), other, key, f, pays("again"))
					if want := map[bool]string{false: "paid", true: "again"}[fails]; answer != want || shared == fails || err != nil {
						t.Errorf("Do = %q, %v, %v, want %q", answer, shared, err, want)
					}
				})
			})
		}
	}
}

// Where it is in doubt whether the begin was noted, the function does not run, and nothing stays.
func TestUncertainWorkThatCannotBeNoted(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		f := uncertain
		f.Policy.TTL = 6 * time.Second
		_, _, _ = lockmw.Do(context.Background(), l, key+"warm", f, pays(""))
		proxy.DropReplies(1000, func(request []byte) bool { return bytes.Contains(request, []byte("\r\nbegin\r\n")) })
		_, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (string, error) {
			t.Error("the function runs")
			return "", nil
		})
		if !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		if answer, shared, err := lockmw.Do(context.Background(), other, key, f, pays("paid")); answer != "paid" || shared || err != nil {
			t.Errorf("Do = %q, %v, %v", answer, shared, err)
		}
	})
}

// What was done and cannot be kept is not done again.
func TestUncertainWorkWhoseAnswerCannotBeKept(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		small := uncertain
		small.MaxAnswer = 10
		if answer, _, err := lockmw.Do(context.Background(), l, key, small, pays("a long receipt")); answer != "a long receipt" || !errors.Is(err, lockmw.ErrAnswerTooLarge) {
			t.Errorf("Do = %q, %v", answer, err)
		}
		odd := func(context.Context) (func(), error) { return func() {}, nil }
		if answer, _, err := lockmw.Do(context.Background(), l, key+"2", uncertain, odd); answer == nil || err == nil {
			t.Errorf("Do = %v", err)
		}
		for _, k := range []string{key, key + "2"} {
			if _, _, err := lockmw.Do(context.Background(), l, k, uncertain, pays("again")); !errors.Is(err, lockmw.ErrAnswerNotKept) {
				t.Errorf("%v, want ErrAnswerNotKept", err)
			}
		}
	})
}

// Somebody has looked, and says what has happened.
func TestResolve(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		ctx, prefix := context.Background(), redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		for what, r := range map[string]lockmw.Resolution{
			"done": lockmw.Done("paid"), "raw": lockmw.Done(json.RawMessage(`"paid"`)), "again": lockmw.Again, "discard": lockmw.Discard,
		} {
			key := prefix + what
			panics(t, l, key, uncertain)
			id := wantUncertain(t, l, key, uncertain)
			if err := l.Resolve(ctx, key, id+"0", r); !errors.Is(err, lockmw.ErrNotUncertain) {
				t.Errorf("%s: other work: %v", what, err)
			}
			if err := l.Resolve(ctx, key, id, lockmw.Resolution{}); !errors.Is(err, lockmw.ErrInvalidPolicy) {
				t.Errorf("%s: no resolution: %v", what, err)
			}
			lease := mustAcquire(t, l, key, uncertain.Policy)
			if err := l.Resolve(ctx, key, id, r); !errors.Is(err, lockmw.ErrNotAcquired) {
				t.Errorf("%s: while somebody has the lock: %v", what, err)
			}
			mustRelease(t, lease)
			if err := l.Resolve(ctx, key, id, r); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err := l.Resolve(ctx, key, id, r); !errors.Is(err, lockmw.ErrNotUncertain) {
				t.Errorf("%s: twice: %v", what, err)
			}
			switch answer, shared, err := lockmw.Do(ctx, l, key, uncertain, pays("another")); what {
			case "again":
				if answer != "another" || shared || err != nil {
					t.Errorf("%s: Do = %q, %v, %v", what, answer, shared, err)
				}
			case "discard":
				if !errors.Is(err, lockmw.ErrAnswerNotKept) {
					t.Errorf("%s: %v, want ErrAnswerNotKept", what, err)
				}
			default:
				if answer != "paid" || !shared || err != nil {
					t.Errorf("%s: Do = %q, %v, %v", what, answer, shared, err)
				}
			}
		}
		key, coded := prefix+"coded", uncertain
		coded.Codec = plainCodec{}
		panics(t, l, key, coded)
		id := wantUncertain(t, l, key, coded)
		if err := l.Resolve(ctx, key, id, lockmw.Done("paid")); !errors.Is(err, lockmw.ErrInvalidPolicy) {
			t.Errorf("an answer in another encoding: %v", err)
		}
		if err := l.Resolve(ctx, key, "seven", lockmw.Again); !errors.Is(err, lockmw.ErrNotUncertain) {
			t.Errorf("no id: %v", err)
		}
		if err := l.Resolve(ctx, "", id, lockmw.Again); !errors.Is(err, lockmw.ErrInvalidKey) {
			t.Errorf("no key: %v", err)
		}
	})
}

// Operators see what is kept for a key.
func TestInspectTellsOfAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		ctx, key := context.Background(), redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		want := func(state lockmw.AnswerState, work bool, until time.Duration) {
			t.Helper()
			info, err := l.Inspect(ctx, key)
			a := info.Answer
			if err != nil || a == nil || a.State != state || (a.Work != "") != work || a.Since.After(time.Now()) || time.Since(a.Since) > time.Minute {
				t.Errorf("%+v, %+v, %v", info, a, err)
				return
			}
			if (until == 0) != a.Until.IsZero() || until > 0 && (a.Until.Sub(a.Since) != until || a.Bytes == 0) {
				t.Errorf("%+v", a)
			}
		}
		if info, err := l.Inspect(ctx, key); err != nil || info.Answer != nil {
			t.Errorf("%+v, %v", info, err)
		}
		_, _, err := lockmw.Do(ctx, l, key, uncertain, func(context.Context) (string, error) {
			want(lockmw.AnswerInProgress, true, 0)
			return "", lockmw.ErrUncertain
		})
		if !errors.Is(err, lockmw.ErrUncertain) {
			t.Error(err)
		}
		want(lockmw.AnswerUncertain, true, 0)
		if err := l.Resolve(ctx, key, wantUncertain(t, l, key, uncertain), lockmw.Done("paid")); err != nil {
			t.Error(err)
		}
		want(lockmw.AnswerKept, false, time.Hour)
	})
}

// Close takes the lock from work that goes on: what comes of that nobody hears but its caller.
func TestUncertainWorkWhoseLockerIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		other := testenv.Open(t, s.Client(t))
		l, err := lockmw.New(s.Client(t))
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		began, closed := make(chan struct{}), make(chan error, 1)
		go func() {
			<-began
			closed <- l.Close(ended)
		}()
		answer, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(ctx context.Context) (string, error) {
			close(began)
			<-ctx.Done() // Close is still at it
			return "paid", nil
		})
		if answer != "paid" || !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Do = %q, %v", answer, err)
		}
		if err := <-closed; err != nil { // the work has ended by then
			t.Error(err)
		}
		wantUncertain(t, other, key, uncertain)
	})
}

// Who completes work behind the word that it is to be done again is told that it was lost, also where others have made another answer meanwhile.
func TestUncertainWorkThatAnotherHasDoneAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		_, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(ctx context.Context) (string, error) {
			if err := other.ForceRelease(context.Background(), key); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			if err := other.Resolve(context.Background(), key, wantUncertain(t, other, key, uncertain), lockmw.Again); err != nil {
				t.Error(err)
			}
			if answer, shared, err := lockmw.Do(context.Background(), other, key, uncertain, pays("again")); answer != "again" || shared || err != nil {
				t.Errorf("Do = %q, %v, %v", answer, shared, err)
			}
			return "paid", nil
		})
		if !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
		wantAnswer(t, l, key, uncertain, "again")
	})
}

// silentFromBegin has Redis fall silent when the begin of work is to be noted.
func silentFromBegin(proxy *faultproxy.Proxy, dir faultproxy.Direction) {
	proxy.DropReplies(1000, func(request []byte) bool {
		begins := bytes.Contains(request, []byte("\r\nbegin\r\n"))
		if begins {
			go proxy.BlackHole(dir)
		}
		return begins
	})
}

// A call's Wait bounds it also where Redis falls silent when the lock is acquired: it may take two commands longer.
func TestTheWaitOfACallWhoseBeginIsNotNoted(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		f := uncertain
		f.Policy.Wait = 100 * time.Millisecond
		_, _, _ = lockmw.Do(context.Background(), l, key+"warm", f, pays(""))
		silentFromBegin(proxy, faultproxy.Both)
		began := time.Now()
		_, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (string, error) {
			t.Error("the function runs")
			return "", nil
		})
		if took := time.Since(began); !errors.Is(err, lockmw.ErrUnavailable) || took > f.Policy.Wait+600*time.Millisecond {
			t.Errorf("%v after %v, want ErrUnavailable within 700 ms", err, took)
		}
		proxy.DropReplies(0, nil)
		proxy.Heal()
		f.Policy.Wait = 10 * time.Second
		if answer, shared, err := lockmw.Do(context.Background(), other, key, f, pays("paid")); answer != "paid" || shared || err != nil {
			t.Errorf("Do = %q, %v, %v", answer, shared, err)
		}
	})
}

// Where the lock is lost while it is in doubt whether the begin was noted, the intent goes.
func TestUncertainWorkThatIsLostBeforeItBegins(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		f := uncertain
		f.Policy.TTL = 700 * time.Millisecond
		_, _, _ = lockmw.Do(context.Background(), l, key+"warm", f, pays(""))
		silentFromBegin(proxy, faultproxy.ToClient)
		time.AfterFunc(3*time.Second, func() { proxy.DropReplies(0, nil); proxy.Heal() })
		_, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (string, error) {
			t.Error("the function runs")
			return "", nil
		})
		if !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		time.Sleep(6 * time.Second)
		if answer, shared, err := lockmw.Do(context.Background(), other, key, f, pays("paid")); answer != "paid" || shared || err != nil {
			t.Errorf("Do = %q, %v, %v", answer, shared, err)
		}
	})
}

// A Redis that is away for longer than the lock lasts hears in the end what became of the work, as long as its process lives.
func TestUncertainWorkWhileRedisIsAwayForLong(t *testing.T) {
	declined := errors.New("declined")
	for name, tc := range map[string]struct {
		err  error         // of the function
		took time.Duration // by the function, with Redis away
		want string        // the answer for whoever comes later
	}{
		"done": {nil, 0, "paid"}, "failed": {declined, 0, "again"}, "done, and the lock was lost before": {nil, 8 * time.Second, "paid"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				client, proxy := proxied(t, s)
				l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
				f := uncertain
				f.Policy.TTL = 6 * time.Second
				answer, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (string, error) {
					proxy.Refuse(true)
					proxy.Cut()
					time.Sleep(tc.took)
					if tc.err != nil {
						return "", tc.err
					}
					return "paid", nil
				})
				if tc.err != nil && !errors.Is(err, tc.err) || tc.err == nil && answer != "paid" || errors.Is(err, lockmw.ErrLost) != (tc.took > 0) {
					t.Errorf("Do = %q, %v", answer, err)
				}
				time.Sleep(10 * time.Second)
				wantUncertain(t, other, key, f)
				proxy.Refuse(false)
				proxy.Heal()
				time.Sleep(12 * time.Second) // for ten, at most, nothing is tried
				if answer, _, err := lockmw.Do(context.Background(), other, key, f, pays("again")); answer != tc.want || err != nil {
					t.Errorf("with Redis back: Do = %q, %v, want %q", answer, err, tc.want)
				}
			})
		})
	}
}

// While the replies of Redis come too late, each call whose end Redis does not know asks again, with longer and longer pauses.
func TestUncertainWorkWhileRepliesAreLate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		answer, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(context.Context) (string, error) {
			proxy.Delay(faultproxy.ToClient, 450*time.Millisecond)
			return "paid", nil
		})
		if answer != "paid" || err != nil {
			t.Errorf("Do = %q, %v", answer, err)
		}
		time.Sleep(time.Minute)
		proxy.ResetCommands()
		time.Sleep(30 * time.Minute)
		commands := proxy.Commands()
		if sent := commands["EVALSHA"] + commands["EVAL"]; sent < 100 || sent > 600 {
			t.Errorf("%d commands in 30 minutes, want 100 to 600", sent)
		}
		proxy.Delay(faultproxy.ToClient, 0)
		time.Sleep(12 * time.Second) // for ten, at most, nothing is tried
		wantAnswer(t, other, key, uncertain, "paid")
	})
}

// The intent of work that did not begin goes as soon as Redis is back.
func TestUncertainWorkThatCannotBeNotedForLong(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
		f := uncertain
		f.Policy.TTL = 6 * time.Second
		_, _, _ = lockmw.Do(context.Background(), l, key+"warm", f, pays(""))
		proxy.DropReplies(1000, func(request []byte) bool { return bytes.Contains(request, []byte("\r\nbegin\r\n")) })
		time.AfterFunc(300*time.Millisecond, func() { proxy.Refuse(true); proxy.Cut() })
		_, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (string, error) {
			t.Error("the function runs")
			return "", nil
		})
		if !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		time.Sleep(time.Minute)
		proxy.DropReplies(0, nil)
		proxy.Refuse(false)
		proxy.Heal()
		time.Sleep(12 * time.Second) // for ten, at most, nothing is tried
		if answer, shared, err := lockmw.Do(context.Background(), other, key, f, pays("paid")); answer != "paid" || shared || err != nil {
			t.Errorf("Do = %q, %v, %v", answer, shared, err)
		}
	})
}

// Close comes at each moment of a call: work that runs is noted, and is not done again. It takes real time, since Close and the call may wait
// for each other at a mutex.
func TestUncertainWorkAndClose(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	other := testenv.Open(t, s.Client(t))
	for _, ms := range []int64{45, 50, 51, 55, 75, 99, 100, 101, 105, 150} {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, err := lockmw.New(client)
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = lockmw.Do(context.Background(), l, key+"warm", uncertain, pays(""))
		proxy.Delay(faultproxy.ToClient, 50*time.Millisecond)
		closed := make(chan struct{})
		time.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
			defer close(closed)
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = l.Close(ended)
		})
		ran := false
		_, _, _ = lockmw.Do(context.Background(), l, key, uncertain, func(ctx context.Context) (string, error) {
			ran = true
			<-ctx.Done() // Close has come
			return "paid", nil
		})
		<-closed
		answer, _, err := lockmw.Do(context.Background(), other, key, uncertain, pays("again"))
		if ran && answer == "again" || !ran && (answer != "again" || err != nil) {
			t.Errorf("Close after %v ms: ran: %v; then %q, %v", ms, ran, answer, err)
		}
	}
}

// What the function has been told of another call's answer says nothing of its own.
func TestUncertainWorkThatFailsForAnAnswerThatIsTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		_, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(ctx context.Context) (string, error) {
			inner := retained(time.Minute)
			inner.MaxAnswer = 3
			_, _, err := lockmw.Do(ctx, l, key+"rates", inner, pays("a long table"))
			return "", err
		})
		if !errors.Is(err, lockmw.ErrAnswerTooLarge) {
			t.Error(err)
		}
		if answer, shared, err := lockmw.Do(context.Background(), l, key, uncertain, pays("paid")); answer != "paid" || shared || err != nil {
			t.Errorf("Do = %q, %v, %v", answer, shared, err)
		}
	})
}

// A function that was told to stop, because its time is over, and ends with an error does not know how far it has come.
func TestUncertainWorkThatIsHeldForTooLong(t *testing.T) {
	for _, end := range []error{nil, errors.New("stopped")} {
		inBubble(t, func(t *testing.T, s *redistest.Mini) {
			key := redistest.Prefix(t)
			l := testenv.Open(t, s.Client(t))
			f := uncertain
			f.Policy.MaxHold = time.Second
			_, _, err := lockmw.Do(context.Background(), l, key, f, func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "paid", end
			})
			if !errors.Is(err, end) {
				t.Error(err)
			}
			if end != nil {
				wantUncertain(t, l, key, f)
			} else {
				wantAnswer(t, l, key, f, "paid")
			}
		})
	}
}

// A function that does not know may say so and return something for its own caller.
func TestMarkUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		var log logBuffer
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t), log.option())
		timeout := func(ctx context.Context) (string, error) {
			lockmw.MarkUncertain(ctx)
			return "the bank has not answered", nil
		}
		for range 2 { // the second time somebody has said that it was not done
			answer, shared, err := lockmw.Do(context.Background(), l, key, uncertain, timeout)
			if answer != "the bank has not answered" || shared || err != nil {
				t.Errorf("Do = %q, %v, %v", answer, shared, err)
			}
			id := wantUncertain(t, other, key, uncertain)
			wantUncertain(t, other, key, uncertain)
			synctest.Wait()
			if got := strings.Join(log.lines(), "\n"); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "work="+id) || !strings.Contains(got, "key="+key) {
				t.Errorf("the log has %q, want one line about the work %s", got, id)
			}
			log.text.Reset()
			if err := other.Resolve(context.Background(), key, id, lockmw.Again); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			log.text.Reset()
		}
		again := retained(time.Hour)
		if answer, shared, err := lockmw.Do(context.Background(), l, key+"2", again, timeout); answer != "the bank has not answered" || shared || err != nil {
			t.Errorf("RunAgain: %q, %v, %v", answer, shared, err)
		}
		if answer, shared, err := lockmw.Do(context.Background(), other, key+"2", again, pays("paid")); answer != "paid" || shared || err != nil {
			t.Errorf("RunAgain, the next: %q, %v, %v", answer, shared, err)
		}
		lockmw.MarkUncertain(context.Background()) // elsewhere it does nothing
	})
}

// A lock within the work was lost, and WithLock says so although its function has paid: nobody knows, and it is not done again.
func TestUncertainWorkWhoseInnerLockIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		receipt, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(ctx context.Context) (string, error) {
			return "paid", l.WithLock(ctx, key+"order", lockmw.Policy{}, func(context.Context) error {
				return other.ForceRelease(context.Background(), key+"order")
			})
		})
		if !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Do = %q, %v, want ErrLost", receipt, err)
		}
		wantUncertain(t, other, key, uncertain)
	})
}

// A request within the work has taken too long: nobody knows whether it has arrived, and it is not done again. Where the work did not get a lock
// in time, it is known that nothing was done.
func TestUncertainWorkWithinWhichSomethingTakesTooLong(t *testing.T) {
	bank := func(context.Context, *lockmw.Locker, string) error {
		return fmt.Errorf("the bank: %w", context.DeadlineExceeded)
	}
	for name, tc := range map[string]struct {
		fails func(ctx context.Context, l *lockmw.Locker, key string) error
		knows bool
	}{
		"a request": {bank, false},
		"a client's own limit": {func(ctx context.Context, _ *lockmw.Locker, _ string) error {
			return &url.Error{Op: "Post", URL: "https://bank.test", Err: os.ErrDeadlineExceeded}
		}, false},
		"a request, and a lock in vain behind it": {func(ctx context.Context, l *lockmw.Locker, key string) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return errors.Join(l.WithLock(ctx, key+"order", lockmw.Policy{}, func(context.Context) error { return nil }), ctx.Err())
		}, false},
		"one that was cancelled": {func(context.Context, *lockmw.Locker, string) error { return context.Canceled }, false},
		"a request, and it knows of no harm": {func(ctx context.Context, l *lockmw.Locker, key string) error {
			lockmw.NotAnAnswer(ctx)
			return bank(ctx, l, key)
		}, true},
		"the wait for a lock": {func(ctx context.Context, l *lockmw.Locker, key string) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return l.WithLock(ctx, key+"order", lockmw.Policy{Wait: time.Minute}, func(context.Context) error { return nil })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				key := redistest.Prefix(t)
				l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
				order := mustAcquire(t, other, key+"order", lockmw.Policy{})
				defer mustRelease(t, order)
				_, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(ctx context.Context) (string, error) {
					return "", tc.fails(ctx, l, key)
				})
				if err == nil {
					t.Error("Do = nil")
				}
				if !tc.knows {
					wantUncertain(t, other, key, uncertain)
				} else if answer, shared, err := lockmw.Do(context.Background(), other, key, uncertain, pays("paid")); answer != "paid" || shared || err != nil {
					t.Errorf("Do = %q, %v, %v, want that it is done again", answer, shared, err)
				}
			})
		})
	}
}

// All callers leave in the middle of the work, which ends with its context's error: nobody knows, and it is not done again.
func TestUncertainWorkThatAllHaveLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _, err := lockmw.Do(ctx, l, key, uncertain, func(ctx context.Context) (string, error) {
			<-ctx.Done() // in the middle of a request to the bank
			return "", ctx.Err()
		})
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do = %v, want the context's error", err)
		}
		wantUncertain(t, other, key, uncertain)
		_, _, err = lockmw.Do(context.Background(), l, key+"knows", uncertain, func(ctx context.Context) (string, error) {
			lockmw.NotAnAnswer(ctx)
			return "", lockmw.ErrLost
		})
		if answer, shared, again := lockmw.Do(context.Background(), other, key+"knows", uncertain, pays("again")); answer != "again" || shared || again != nil {
			t.Errorf("Do = %q, %v, %v behind %v of work that knows that nothing was done", answer, shared, again, err)
		}
	})
}
