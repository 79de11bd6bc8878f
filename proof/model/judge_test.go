package model

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// record returns what MONITOR has told of some processes that want one lock, of each kind, and give up now and then.
func record(t *testing.T, p lockmw.Policy) []string {
	t.Helper()
	s := redistest.Real(t)
	monitor, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = monitor.Close() }()
	told := bufio.NewReader(monitor)
	if _, err := io.WriteString(monitor, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := told.ReadString('\n'); err != nil || !strings.HasPrefix(line, "+OK") {
		t.Fatalf("MONITOR: %q, %v", line, err)
	}
	var working sync.WaitGroup
	for range 3 {
		l := testenv.Open(t, s.Client(t, func(o *redis.Options) { o.PoolSize = 4 }))
		for g := range 3 {
			working.Go(func() {
				for turn := range 15 {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					if g == 2 && turn%3 == 0 {
						ctx, cancel = context.WithTimeout(context.Background(), time.Duration(turn)*time.Millisecond)
					}
					if _, lease, err := l.Acquire(ctx, "k", p); err == nil {
						_ = lease.Release(context.Background())
					}
					cancel()
				}
			})
		}
	}
	working.Wait()
	const end = "that is all"
	s.Client(t).Set(context.Background(), end, "", time.Second)
	var lines []string
	for {
		line, err := told.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, end) {
			return lines
		}
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "+"))
	}
}

// judgeAll returns how many scripts were judged, and what was wrong first.
func judgeAll(t *testing.T, calls []call) (int, error) {
	t.Helper()
	j, err := newJudge(redisstore.Scripts())
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	for i, c := range calls {
		if err := j.take(c); err != nil {
			return j.judged, fmt.Errorf("call %d: %w", i, err)
		}
	}
	return j.judged, nil
}

// What a real server has done is what the model's store does, to the last call of each script; and a call that is not is noticed.
func TestARealServerDoesWhatTheModelDoes(t *testing.T) {
	for name, p := range map[string]lockmw.Policy{
		"a mutex": {Wait: 20 * time.Second}, "readers": {Wait: 20 * time.Second, Mode: lockmw.Shared},
		"permits": {Wait: 20 * time.Second, Permits: 2}, "no wait": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, err := parseMonitor(record(t, p))
			if err != nil {
				t.Fatal(err)
			}
			judged, err := judgeAll(t, calls)
			if err != nil {
				t.Errorf("after %d scripts: %v", judged, err)
			}
			if judged < 20 {
				t.Errorf("only %d scripts were judged", judged)
			}
			t.Logf("%d commands, %d scripts", len(calls), judged)

			// One call of the last script that wrote the lock says something else.
			for i, c := range slices.Backward(calls) {
				at := slices.IndexFunc(c.inner, func(args []string) bool { return args[0] == "SET" && args[1] == keyNames[0][keyLock] })
				if at < 0 {
					continue
				}
				calls[i].inner[at][2] += "0"
				if _, err := judgeAll(t, calls); err == nil {
					t.Error("a changed call is accepted")
				}
				return
			}
			t.Error("no script has written the lock")
		})
	}
}
