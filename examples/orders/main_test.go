package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func TestLockedRunCountsEveryPayment(t *testing.T) {
	r := callRoll(t)
	cmd, errs := program(t, r, "", "-clients", "40", "-rounds", "5")
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("exit: %v, want status 0; it said:\n%s", err, errs)
	}
	for _, want := range []string{
		`(?m)^with the lock +200 of 200 .* 0$`,
		`(?m)^without it +\d+ of 200 .* 0$`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("output does not match %q:\n%s", want, out)
		}
	}
	r.close(t, 1+4)
}

func TestWithoutFlagLeavesTheSecondRunOut(t *testing.T) {
	r := callRoll(t)
	cmd, errs := program(t, r, "", "-clients", "3", "-rounds", "2", "-shops", "2", "-without=false")
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("exit: %v, want status 0; it said:\n%s", err, errs)
	}
	if !strings.Contains(string(out), "6 of 6") || strings.Contains(string(out), "without it") {
		t.Errorf("output wants the locked run only:\n%s", out)
	}
	r.close(t, 1+2)
}

func TestUnreachableRedisIsTold(t *testing.T) {
	for _, redis := range []string{"127.0.0.1:1", "no port", "redis://:secret@127.0.0.1:1", "redis://:secret@[::1", "http://:secret@127.0.0.1"} {
		t.Run(redis, func(t *testing.T) {
			r := callRoll(t)
			cmd, errs := program(t, r, redis)
			if code := exitCode(t, cmd.Run()); code != 1 {
				t.Errorf("exit status = %d, want 1", code)
			}
			if !strings.Contains(errs.String(), redisEnv) || strings.Contains(errs.String(), "secret@") {
				t.Errorf("it said %q, want %s named and no password", errs, redisEnv)
			}
			r.close(t, 1)
		})
	}
}

func TestRedisThatCannotLockIsTold(t *testing.T) {
	m := miniredis.RunT(t)
	m.HSet("lock:{order:1001}", "other", "data")
	r := callRoll(t)
	cmd, errs := program(t, r, m.Addr())
	if code := exitCode(t, cmd.Run()); code != 1 {
		t.Errorf("exit status = %d, want 1", code)
	}
	if want := "shop 1 cannot lock: 503"; !strings.Contains(errs.String(), want) {
		t.Errorf("it said %q, want %q", errs, want)
	}
	r.close(t, 1+4)
}

func TestRedisThatGoesAwayEndsTheRun(t *testing.T) {
	m := miniredis.RunT(t)
	r := callRoll(t)
	cmd, errs := program(t, r, m.Addr(), "-clients", "20", "-rounds", "100000", "-shops", "2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitLock(t, m)
	m.Close()
	if code := exitCode(t, cmd.Wait()); code != 1 {
		t.Errorf("exit status = %d, want 1", code)
	}
	if want := "does not answer any more"; !strings.Contains(errs.String(), want) {
		t.Errorf("it said %q, want %q", errs, want)
	}
	r.close(t, 1+2)
}

// awaitLock returns when the crowd is at work.
func awaitLock(t *testing.T, m *miniredis.Miniredis) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if m.Exists("lock:{order:" + order + "}") {
			return
		}
	}
	t.Fatal("nobody takes the lock")
}

func TestExactMeansEveryPaymentAndNoneTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		r    result
		want bool
	}{
		"all":          {result{want: 10, count: 10}, true},
		"one lost":     {result{want: 10, count: 9}, false},
		"one too many": {result{want: 10, count: 11}, false},
		"one refused":  {result{want: 10, count: 9, refused: 1}, false},
		"paid, failed": {result{want: 10, count: 10, failed: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.r.exact(); got != tc.want {
				t.Errorf("exact() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTableIsAligned(t *testing.T) {
	var out strings.Builder
	table(&out, []result{
		{name: "with the lock", want: 10000, count: 10000, took: 20 * time.Second, waits: []time.Duration{1234567 * time.Microsecond}},
		{name: "without it", want: 10000, count: 7, took: time.Second, waits: []time.Duration{12345 * time.Microsecond}, refused: 3},
	})
	const want = `
                      counted     req/s  wait p50  wait p99  refused
with the lock  10000 of 10000       500     1.23s     1.23s        0
without it         7 of 10000     10000      12ms      12ms        3

The waits are the times from a request to its answer.
`
	if got := out.String(); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
}

func TestFewOpenFilesMeanFewerConnections(t *testing.T) {
	o := options{clients: 1000, shops: 4}
	each := ledgerConns + redisConns + 8
	for limit, want := range map[int]int{
		20000: 250,
		1024:  (1024-64)/4 - each,
		256:   (256-64)/4 - each,
	} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			if got, err := connections(o, limit); err != nil || got != want {
				t.Errorf("connections = %d, %v; want %d", got, err, want)
			}
		})
	}
	if _, err := connections(o, 128); err == nil {
		t.Error("no error for a limit that is too low")
	}
}
