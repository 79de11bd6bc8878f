package jobs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// roleEnv names the environment variable that makes a process of this test's program a
// candidate, with its role as JSON.
const roleEnv = "PROOF_JOBS_ROLE"

// A role is what a candidate does, until its stdin ends.
type role struct {
	Name  string        `json:"name"`
	Addr  string        `json:"addr"` // of Redis, or of a proxy before it
	Key   string        `json:"key"`
	TTL   time.Duration `json:"ttl"`
	Every time.Duration `json:"every"` // of a job; 0: it wants to lead
}

// A sight is one line that a candidate writes. Times are those of the wall clock, which all
// processes of a machine share, in ns.
type sight struct {
	Began  int64  `json:"began,omitempty"`  // the term with this fence begins, or the job runs for Slot
	Leads  int64  `json:"leads,omitempty"`  // IsLeader said true; it was asked then
	Fence  int64  `json:"fence,omitempty"`  // of the term
	Slot   int64  `json:"slot,omitempty"`   // the time for which a job was planned
	Asked  int64  `json:"asked,omitempty"`  // the slot for which the job was asked for, and answered
	Unsure int64  `json:"unsure,omitempty"` // the same, where Redis was not heard of, or the lock was lost
	Failed string `json:"failed,omitempty"`

	by string
}

// surest is how long a question may take that says when it was answered: not longer than
// a stop by a signal lasts.
const surest = 20 * time.Millisecond

// play carries a role out.
func play(r role, in io.Reader, out io.Writer) {
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	tell := func(s sight) {
		mu.Lock()
		defer mu.Unlock()
		if err := lines.Encode(s); err != nil {
			os.Exit(1) // the test has ended: nobody reads it
		}
	}
	client := redis.NewClient(redistest.Options(r.Addr))
	locks, err := lockmw.New(client, lockmw.WithInstance(r.Name))
	if err != nil {
		tell(sight{Failed: err.Error()})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	if r.Every > 0 {
		runJobs(ctx, locks, r, tell)
	} else {
		lead(ctx, locks, r, tell)
	}
	_ = locks.Close(ctx)
	_ = client.Close()
}

// lead campaigns, and tells when it leads.
func lead(ctx context.Context, locks *lockmw.Locker, r role, tell func(sight)) {
	leader := locks.Leader(r.Key, lockmw.Policy{TTL: r.TTL})
	err := leader.Run(ctx, func(ctx context.Context) error {
		lease, _ := lockmw.FromContext(ctx)
		tell(sight{Began: time.Now().UnixNano(), Fence: lease.Fence()})
		// It is asked for longer than the leader may lead: what IsLeader says then counts.
		for end := (time.Time{}); end.IsZero() || time.Now().Before(end); {
			if ctx.Err() != nil && end.IsZero() {
				end = time.Now().Add(r.TTL)
			}
			asked := time.Now()
			leads := leader.IsLeader()
			if leads && time.Since(asked) < surest && time.Since(asked.Round(0)) < surest {
				tell(sight{Leads: asked.UnixNano(), Fence: lease.Fence()})
			}
			time.Sleep(2 * time.Millisecond)
		}
		return context.Cause(ctx)
	})
	if ctx.Err() == nil {
		tell(sight{Failed: fmt.Sprintf("Run: %v", err)})
	}
}

// runJobs runs a job at each full interval of the clock, as a scheduler does: whoever comes
// late, because it was stopped, comes all the same. The key has the time for which a run was planned.
func runJobs(ctx context.Context, locks *lockmw.Locker, r role, tell func(sight)) {
	policy := lockmw.Policy{Prefix: r.Key, TTL: r.TTL, MinHold: time.Minute, MinHoldOnError: true}
	for next := time.Now().Truncate(r.Every).Add(r.Every); ; next = time.Now().Truncate(r.Every).Add(r.Every) {
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return
		}
		slot := time.Now().Truncate(r.Every)
		_, err := locks.Once(ctx, slot.UTC().Format(time.RFC3339Nano), policy, func(context.Context) error {
			tell(sight{Began: time.Now().UnixNano(), Slot: slot.UnixNano()})
			return nil
		})
		switch {
		case errors.Is(err, lockmw.ErrUnavailable), errors.Is(err, lockmw.ErrLost): // a process that was stopped at its run has told of it
			tell(sight{Unsure: slot.UnixNano()})
		case err != nil && ctx.Err() == nil:
			tell(sight{Failed: fmt.Sprintf("Once: %v", err)})
		default:
			tell(sight{Asked: slot.UnixNano()})
		}
	}
}

// A candidate is a process with a role.
type candidate struct {
	role role
	cmd  *exec.Cmd
	gone chan struct{} // it has ended, and all that it wrote was read
}

// start starts a candidate. What it sees goes to seen. It is killed when the test ends.
func start(t *testing.T, r role, seen func(sight)) *candidate {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{role: r, cmd: exec.Command(self), gone: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if _, err := c.cmd.StdinPipe(); err != nil { // it ends with this process
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.gone)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var s sight
			if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
				continue // the last line of a process that was killed
			}
			s.by = r.Name
			seen(s)
		}
		_ = c.cmd.Wait()
	}()
	t.Cleanup(c.kill)
	return c
}

func (c *candidate) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.gone
}

func (c *candidate) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
