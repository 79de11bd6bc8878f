package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/examples/comingfrom/internal/besidetest"
	"github.com/lockmw/kit/examples/comingfrom/internal/standin"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// Neither returns an error where it is refused: the job is done, or was, by somebody else.
func TestBothVersionsSideBySide(t *testing.T) { besidetest.Pair(t, old, ours) }

// Processes of both versions come at the same time for each of many reports, and once more when all reports are
// written.
func TestEachReportIsWrittenOnce(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	ledger := besidetest.NewLedger(t)
	theirs := newBefore(client, ledger.Work("before"))
	ours, err := newAfter(client, ledger.Work("after"))
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close(context.Background())
	const days, processes = 40, 3
	everybody := func() {
		for day := range days {
			var all sync.WaitGroup
			for range processes {
				for _, report := range []func(context.Context, string) (bool, error){theirs.Report, ours.Report} {
					all.Go(func() {
						if _, err := report(t.Context(), ledger.Key(day)); err != nil {
							t.Error(err)
						}
					})
				}
			}
			all.Wait()
		}
	}
	everybody()
	first := ledger.Jobs()
	everybody()
	jobs := ledger.Jobs()
	t.Logf("%d reports by before, %d by after", jobs["before"], jobs["after"])
	if jobs["before"]+jobs["after"] != days || jobs["before"] != first["before"] || ledger.Overlaps() != 0 {
		t.Errorf("%v reports were written, %v of them at once, %d at the same time; want %d at once", jobs, first, ledger.Overlaps(), days)
	}
}

// Without safeUpdate, the default there, a task that takes longer than lockAtMostFor deletes the lock of whoever has
// it by then. Our work is told.
func TestALateTaskOfShedLockTakesOurLock(t *testing.T) {
	for name, safe := range map[string]bool{"without safeUpdate": false, "with safeUpdate": true} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			day := besidetest.NewLedger(t).Key(0)
			theirs := newBefore(client, nil)
			theirs.locks = &standin.ShedLock{Client: client, KeyPrefix: "job-lock", Environment: "default", SafeUpdate: safe}
			locks := testenv.Open(t, client, lockmw.WithNamespace("job-lock:default"))

			atWork, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			theirs.atMost, theirs.atLeast = 100*time.Millisecond, 0
			theirs.write = func(context.Context, string) error {
				close(atWork)
				<-goOn // for longer than 100 ms
				return nil
			}
			go func() {
				_, err := theirs.Report(context.Background(), day)
				done <- err
			}()
			await.Receive(t, "their task is at work", atWork)
			policy := lockmw.Policy{Prefix: "report:", TTL: 600 * time.Millisecond, Wait: 10 * time.Second}
			if safe {
				policy.TTL = 30 * time.Second // a busy machine is not to lose it
			}
			work, lease, err := locks.Acquire(t.Context(), day, policy)
			if err != nil {
				t.Fatal(err)
			}
			close(goOn)
			if err := await.Receive(t, "their task is done", done); err != nil {
				t.Error(err)
			}
			if safe {
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release = %v, want nil: the lock is still ours", err)
				}
				return
			}
			if n := client.Exists(t.Context(), "job-lock:default:{report:"+day+"}").Val(); n != 0 {
				t.Errorf("there are %d keys, want none: their release has deleted ours", n)
			}
			await.Receive(t, "our work is told", work.Done())
			if err := context.Cause(work); !errors.Is(err, lockmw.ErrLost) {
				t.Errorf("our work is told %v, want %v", err, lockmw.ErrLost)
			}
			if err := lease.Release(t.Context()); !errors.Is(err, lockmw.ErrLost) {
				t.Errorf("Release = %v, want %v", err, lockmw.ErrLost)
			}
		})
	}
}
