package lockmw_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/lockmw"
)

// settingsEnv has a process of this test have Lockers with settings in the Redis at that address, and tell when each sees one, until
// its input ends.
const settingsEnv = "LOCKMW_TELL_SETTINGS"

const (
	settingsProcesses = 10
	settingsLockers   = 10 // of each process
)

func tellSettings(addr string) error {
	ctx := context.Background()
	client := redis.NewClient(redistest.Options(addr))
	defer client.Close()
	began := make(chan time.Time, 1000)
	for range settingsLockers {
		l, err := lockmw.New(client, lockmw.WithService("shop"), lockmw.WithSettings(lockmw.SettingsInRedis()),
			lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
				if e.Kind == lockmw.EventSettingBegan {
					began <- time.Now()
				}
			}))
		if err != nil {
			return err
		}
		defer l.Close(ctx)
		for !l.Stats().Subscribed || l.Stats().Settings.Ages["redis"] > 9*time.Second { // until it was read once, that is the Locker's age
			time.Sleep(10 * time.Millisecond)
		}
		_, _ = fmt.Fprintln(os.Stdout, "ready")
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		select {
		case at := <-began:
			_, _ = fmt.Fprintln(os.Stdout, "began", at.UnixNano())
		case <-ended:
			return nil
		}
	}
}

func TestSettingsInRedisAreSeenByAHundredLockersInTenProcesses(t *testing.T) {
	slow.Test(t)
	s := redistest.Real(t)
	c := s.Client(t)
	const lockers = settingsProcesses * settingsLockers
	ready, began := make(chan struct{}, lockers), make(chan time.Time, 10*lockers)
	for range settingsProcesses {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), settingsEnv+"="+s.Addr())
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var ns int64
				if _, err := fmt.Sscanf(lines.Text(), "began %d", &ns); err == nil {
					began <- time.Unix(0, ns)
				} else {
					ready <- struct{}{}
				}
			}
		}()
		t.Cleanup(func() {
			_ = in.Close()
			<-read
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	for range lockers {
		await.Receive(t, "a Locker that has read its settings", ready)
	}
	operator := fromRedis(t, c)
	measure := func(how string, most time.Duration, change func()) {
		t.Helper()
		at := time.Now()
		change()
		var took []time.Duration
		for range lockers {
			took = append(took, await.Receive(t, "a setting", began).Sub(at))
		}
		slices.Sort(took)
		t.Logf("%s: median %v, p99 %v, most %v", how, took[lockers/2], took[lockers*99/100-1], took[lockers-1])
		if took[lockers*99/100-1] > most && !stoodStill(at) {
			t.Errorf("%s: p99 %v, want %v at most", how, took[lockers*99/100-1], most)
		}
	}
	measure("by a message", 3*time.Second, func() { put(t, operator, "shop/pay", `{"wait":"5s"}`) })
	measure("without a message", 15*time.Second, func() {
		if err := c.HSet(t.Context(), "lockmw:settings:lock", "shop/pay", `{"wait":"6s"}`).Err(); err != nil {
			t.Fatal(err)
		}
	})
}
