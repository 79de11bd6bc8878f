package janitor_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/internal/janitor"
	"github.com/lockmw/kit/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// remote is a store at a distance, whose server may be away.
type remote struct {
	store.Store
	distance time.Duration

	mu      sync.Mutex
	away    bool
	refuses bool // for lack of a right
	batches int
	tokens  int                    // in all batches together
	removed map[string][]time.Time // by token, when
	stays   map[string]time.Duration
}

func newRemote() *remote {
	return &remote{distance: 40 * time.Millisecond, removed: make(map[string][]time.Time), stays: make(map[string]time.Duration)}
}

// Remove implements store.Store.
func (s *remote) Remove(_ context.Context, batch []store.Removal) {
	time.Sleep(s.distance)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	s.tokens += len(batch)
	for i := range batch {
		if s.away {
			batch[i].Err = &store.Error{Err: errors.New("away")}
			continue
		}
		if s.refuses {
			batch[i].Err = &store.Error{Err: errors.New("NOPERM"), Permanent: true}
			continue
		}
		s.removed[batch[i].Token] = append(s.removed[batch[i].Token], time.Now())
		s.stays[batch[i].Token] = batch[i].Stay
	}
}

func (s *remote) goAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *remote) refuse(refuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = refuses
}

func (s *remote) look() (batches, tokens, removed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches, s.tokens, len(s.removed)
}

func silence() *slog.Logger { return slog.New(slog.DiscardHandler) }

// add adds n tokens.
func add(j *janitor.Janitor, n int, certain bool) {
	for i := range n {
		j.Add(store.Ref{Key: "k", Token: strconv.Itoa(i), TTL: time.Minute}, certain)
	}
}

func stop(t *testing.T, j *janitor.Janitor, want int) {
	t.Helper()
	if left := j.Stop(context.Background()); left != want {
		t.Errorf("Stop = %d, want %d", left, want)
	}
}

func TestABurstIsRemovedWithinTwoSeconds(t *testing.T) {
	const burst = 100_000
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		j := janitor.New(s, silence())
		add(j, burst, true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		batches, tokens, removed := s.look()
		if removed != burst || tokens != burst {
			t.Errorf("%d of %d tokens were removed, in %d tries", removed, burst, tokens)
		}
		t.Logf("%d tokens in %d batches", burst, batches)
		stop(t, j, 0)
	})
}

// A hundred thousand tokens may be due later. A token that is added and a batch that
// ends must not look at all of them.
func TestABurstCostsLinearTime(t *testing.T) {
	cost := func(n int) time.Duration {
		began := time.Now() // outside of the bubble, whose clock does not tell
		synctest.Test(t, func(t *testing.T) {
			j := janitor.New(newRemote(), silence())
			for i := range n {
				j.AddAt(time.Now().Add(time.Hour), store.Ref{Token: strconv.Itoa(-1 - i)}, true)
			}
			add(j, n, false)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			stop(t, j, 0)
		})
		return time.Since(began)
	}
	few, many := cost(5_000), cost(50_000)
	// A machine that does something else makes some of them take longer.
	for round := 0; round < 2 || round < 10 && many > 50*few; round++ {
		few, many = min(few, cost(5_000)), min(many, cost(50_000))
	}
	t.Logf("5,000 tokens took %v, 50,000 %v", few, many)
	if many > 50*few { // linear: 10, quadratic: 100
		t.Errorf("ten times as many tokens took %d times as long", many/few)
	}
}

func TestATokenInDoubtIsRemovedUntilNothingCanCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		j := janitor.New(s, silence())
		j.Add(store.Ref{Token: "doubt"}, false)
		j.Add(store.Ref{Token: "certain"}, true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := len(s.removed["certain"]); n != 1 {
			t.Errorf("a certain token was removed %d times, want once", n)
		}
		times := s.removed["doubt"]
		if len(times) != 4 {
			t.Fatalf("a token in doubt was removed %d times, want 4", len(times))
		}
		if d := times[3].Sub(times[0]); d < time.Second {
			t.Errorf("the last removal came %v after the first, want a second at least", d)
		}
		stop(t, j, 0)
	})
}

func TestAServerThatIsAwayCostsLittle(t *testing.T) {
	const burst = 50_000
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.goAway(true)
		j := janitor.New(s, silence())
		add(j, burst, false)
		time.Sleep(30 * time.Second)
		batches, tokens, _ := s.look()
		if batches > 30*5 || tokens > 30*100+8*1000 { // the first batches are large
			t.Errorf("in 30 s there were %d batches with %d tokens", batches, tokens)
		}
		s.goAway(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, _, removed := s.look(); removed != burst {
			t.Errorf("2 s after the server was back %d of %d tokens were removed", removed, burst)
		}
		stop(t, j, 0)
	})
}

// What was sent before the server went away may be carried out when it is back,
// after the first removal that it answers.
func TestATokenInDoubtIsRemovedForASecondAfterTheServerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.goAway(true)
		j := janitor.New(s, silence())
		j.Add(store.Ref{Token: "doubt"}, false)
		time.Sleep(5 * time.Second)
		s.goAway(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		times := s.removed["doubt"]
		if len(times) < 2 || times[len(times)-1].Sub(times[0]) < time.Second {
			t.Errorf("removed at %v, want removals over a second", times)
		}
		stop(t, j, 0)
	})
}

func TestTooManyTokensAreToldOnce(t *testing.T) {
	const burst, most = 200_000, 1<<17 + 1000 // a batch is under way
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		s := newRemote()
		s.goAway(true)
		j := janitor.New(s, slog.New(slog.NewTextHandler(&said, nil)))
		add(j, burst, true)
		if n := strings.Count(said.String(), "\n"); n != 1 || !strings.Contains(said.String(), "too many abandoned attempts and unanswered releases") {
			t.Errorf("%d log lines: %s", n, said.String())
		}
		s.goAway(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, _, removed := s.look(); removed < most-2000 || removed > most {
			t.Errorf("%d tokens were kept, want about %d", removed, most)
		}
		add(j, burst, true) // it is said again of the next burst
		if n := strings.Count(said.String(), "\n"); n != 2 {
			t.Errorf("%d log lines after the second burst, want 2", n)
		}
		left := j.Stop(t.Context())
		if _, _, removed := s.look(); left != 2*(burst-removed) {
			t.Errorf("Stop = %d, and %d of each burst were removed, want %d", left, removed, 2*(burst-removed))
		}
	})
}

// A token is given up after its TTL, and all of a batch are told in one log line.
func TestTokensOfAServerThatStaysAwayAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		s := newRemote()
		s.goAway(true)
		j := janitor.New(s, slog.New(slog.NewTextHandler(&said, nil)))
		add(j, 60, true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		batches, _, _ := s.look()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if again, _, _ := s.look(); again != batches {
			t.Errorf("%d more batches after the TTL", again-batches)
		}
		if n := strings.Count(said.String(), "\n"); n == 0 || n > 2 {
			t.Errorf("%d log lines: %s", n, said.String())
		}
		stop(t, j, 0)
	})
}

// A right that was taken away for a moment does not leave keys for a whole TTL.
func TestWhatWasRefusedIsRemovedWhenTheRightIsBack(t *testing.T) {
	const burst = 3_000
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.refuse(true)
		j := janitor.New(s, silence())
		add(j, burst, false)
		time.Sleep(20 * time.Second)
		if batches, tokens, _ := s.look(); batches > 200 || tokens > burst+200*16 {
			t.Errorf("%d batches of %d tokens in all while everything was refused", batches, tokens)
		}
		s.refuse(false)
		time.Sleep(time.Second)
		if _, _, removed := s.look(); removed != burst {
			t.Errorf("%d of %d are removed a second after the right is back", removed, burst)
		}
		stop(t, j, 0)
	})
}

// Nobody gives a right back for the sake of a process that ends.
func TestStopDoesNotWaitForARight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.refuse(true)
		j := janitor.New(s, silence())
		add(j, 10, false)
		began := time.Now()
		stop(t, j, 10)
		if took := time.Since(began); took > time.Second {
			t.Errorf("Stop took %v", took)
		}
	})
}

// What was turned away for want of room may be in the store until its time is over: Stop tells of it.
func TestStopTellsOfWhatWasTurnedAway(t *testing.T) {
	const tokens = 140_000 // some more than there is room for
	for _, isOver := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newRemote()
			j := janitor.New(s, silence())
			left := 0
			for burst := 1; burst < 3; burst++ {
				s.goAway(true)
				for i := range tokens {
					j.Add(store.Ref{Key: "k", Token: strconv.Itoa(burst*tokens + i), TTL: time.Minute}, true)
				}
				s.goAway(false)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				_, _, removed := s.look()
				if left = burst*tokens - removed; left == 0 {
					t.Fatal("none was turned away")
				}
				if isOver && burst == 1 {
					time.Sleep(time.Minute)
				}
			}
			if isOver {
				left /= 2
			}
			stop(t, j, left)
		})
	}
}

// A node of a quorum may be away for hours while locks are taken at the others: each
// leaves a token. That is told once a minute, and all of them are counted.
func TestALongAbsenceIsToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		s := newRemote()
		s.goAway(true)
		j := janitor.New(s, slog.New(slog.NewTextHandler(&said, nil)))
		const minutes, perSecond = 5, 10
		for i := range minutes * 60 * perSecond {
			j.Add(store.Ref{Key: "k", Token: strconv.Itoa(i), TTL: time.Second}, true)
			time.Sleep(time.Second / perSecond)
		}
		s.goAway(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		stop(t, j, 0)
		_, _, removed := s.look()
		told := 0
		lines := strings.FieldsFunc(said.String(), func(r rune) bool { return r == '\n' })
		for _, line := range lines {
			_, rest, _ := strings.Cut(line, "attempts=")
			number, _, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Errorf("%q tells no number of attempts", line)
			}
			told += n
		}
		if len(lines) < minutes-1 || len(lines) > minutes+1 {
			t.Errorf("%d log lines in %d minutes", len(lines), minutes)
		}
		if all := minutes * 60 * perSecond; removed+told != all {
			t.Errorf("%d were removed and %d told of, of %d", removed, told, all)
		}
	})
}

// What is refused for good is given up after its TTL.
func TestWhatStaysRefusedIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.refuse(true)
		j := janitor.New(s, silence())
		add(j, 10, true)
		time.Sleep(2 * time.Minute)
		before, _, _ := s.look()
		time.Sleep(2 * time.Minute)
		if after, _, _ := s.look(); after != before {
			t.Errorf("%d more batches after the TTL", after-before)
		}
		stop(t, j, 0)
	})
}

func TestStopGivesUpOnAServerThatIsAway(t *testing.T) {
	const burst = 10_000
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.goAway(true)
		j := janitor.New(s, silence())
		add(j, burst, false)
		began := time.Now()
		stop(t, j, burst)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Stop took %v", took)
		}
	})
}

// A store that hangs holds up Stop until its context ends, and the batch.
func TestStopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := janitor.New(hanging{}, silence())
		add(j, 1, false)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if left := j.Stop(ctx); left != 1 {
			t.Errorf("Stop = %d, want 1", left)
		}
		if took := time.Since(began); took > 1200*time.Millisecond {
			t.Errorf("Stop took %v", took)
		}
	})
}

// hanging is a store that does not answer until its time is over, and does not
// let a context that is cancelled interrupt it.
type hanging struct{ store.Store }

func (hanging) Remove(ctx context.Context, batch []store.Removal) {
	deadline, _ := ctx.Deadline()
	time.Sleep(time.Until(deadline))
	for i := range batch {
		batch[i].Err = context.DeadlineExceeded
	}
}

// What is due later is given back at the end, so that the key stays taken until then and no longer. Stop does not wait for that
// moment.
func TestStopGivesBackWhatIsDueLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		j := janitor.New(s, silence())
		add := func(token string, in time.Duration) {
			j.AddAt(time.Now().Add(in), store.Ref{Key: "k", Token: token, TTL: time.Minute}, true)
		}
		add("due", 5*time.Minute)
		add("early", time.Hour)
		time.Sleep(5*time.Minute - time.Second)
		if _, _, removed := s.look(); removed > 0 {
			t.Errorf("%d tokens were removed before they were due", removed)
		}
		time.Sleep(5 * time.Minute)
		time.AfterFunc(s.distance/2, func() { add("late", time.Hour) }) // while Stop is under way
		began := time.Now()
		stop(t, j, 0)
		if took := time.Since(began); took > time.Second {
			t.Errorf("Stop took %v", took)
		}
		want := map[string]time.Duration{"due": 0, "early": 50*time.Minute + time.Second, "late": time.Hour}
		if !maps.Equal(s.stays, want) {
			t.Errorf("removed, and how long their keys stay taken: %v, want %v", s.stays, want)
		}
	})
}

// What is due later and cannot be given back is counted as all that is left.
func TestStopCountsWhatIsDueLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.goAway(true)
		j := janitor.New(s, silence())
		j.AddAt(time.Now().Add(time.Hour), store.Ref{Key: "k", Token: "t", TTL: time.Minute}, true)
		stop(t, j, 1)
	})
}
