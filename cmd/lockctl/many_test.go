//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

// lines tells when the first line came, and how many there were.
type lines struct {
	first time.Time
	n     int
}

func (l *lines) Write(b []byte) (int, error) {
	if l.n == 0 {
		l.first = time.Now()
	}
	l.n += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

// A list of many locks begins at once, and holds up no other command. A machine that does
// other things may stop lockctl or Redis in the middle of something: one list of several has
// to keep the bounds.
func TestManyLocks(t *testing.T) {
	const locks = manyLocks
	firstLine, longest, attempts := 100*time.Millisecond, 5*time.Millisecond, 4
	if testing.Short() { // other tests keep Redis from its core; make budgets holds it to these, with more locks
		firstLine, longest, attempts = 5*firstLine, 10*longest, 8
	}
	for kind, open := range map[string]func(t *testing.T) (redis.UniversalClient, []*redistest.Server, []string){
		"single": func(t *testing.T) (redis.UniversalClient, []*redistest.Server, []string) {
			server := redistest.Real(t)
			return server.Client(t), []*redistest.Server{server}, []string{"--redis", "redis://" + server.Addr()}
		},
		"Cluster": func(t *testing.T) (redis.UniversalClient, []*redistest.Server, []string) {
			cluster := redistest.Cluster(t)
			return cluster.Client(t), cluster.Nodes, []string{"--cluster", "--redis", "redis://" + cluster.Nodes[0].Addr()}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			client, servers, flags := open(t)
			fill(t, client, locks)
			for _, s := range servers {
				if err := s.Client(t).ConfigSet(t.Context(), "slowlog-log-slower-than", "1000").Err(); err != nil {
					t.Fatal(err)
				}
			}
			kept := false
			for attempt := 0; attempt < attempts && !kept; attempt++ {
				for _, s := range servers {
					if err := s.Client(t).Do(t.Context(), "SLOWLOG", "RESET").Err(); err != nil {
						t.Fatal(err)
					}
				}
				var out lines
				began := time.Now()
				if number := run(t.Context(), append([]string{"ls"}, flags...), strings.NewReader(""), &out, io.Discard); number != 0 || out.n != locks+1 {
					t.Fatalf("status %d, %d lines", number, out.n)
				}
				first, all := out.first.Sub(began), time.Since(began)
				slowest, over := time.Duration(0), 0
				for _, s := range servers {
					slow, err := s.Client(t).SlowLogGet(t.Context(), 128).Result()
					if err != nil {
						t.Fatal(err)
					}
					over += len(slow)
					for _, one := range slow {
						slowest = max(slowest, one.Duration)
					}
				}
				t.Logf("the first line after %v, all after %v; %d commands over 1 ms, the longest %v", first, all, over, slowest)
				kept = first <= firstLine && slowest <= longest
			}
			if !kept {
				t.Errorf("no list has its first line within %v and no command over %v", firstLine, longest)
			}
			p := newProgram(t, nil, append([]string{"ls", "-o", "json"}, flags...)...)
			p.Stdout = io.Discard
			p.begin(t)
			if got := p.ended(t); got.status != 0 {
				t.Fatalf("%+v", got)
			}
			// Windows does not say this, so there this file is not built.
			had := p.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
			if runtime.GOOS == "darwin" {
				had /= 1 << 10 // which counts bytes
			}
			t.Logf("the process had %d KiB at most", had)
			if had > mostMemory {
				t.Errorf("the process had %d KiB, more than %d", had, mostMemory)
			}
		})
	}
}

// Work that nobody knows of is found among many answers, without a word about those, and holds up no other command. One
// list of several has to keep the bound, as with locks.
func TestUncertainWorkAmongManyAnswers(t *testing.T) {
	const answers, lost = manyLocks, 5
	longest, attempts := 5*time.Millisecond, 4
	if testing.Short() {
		longest, attempts = 10*longest, 8
	}
	server := redistest.Real(t)
	client := server.Client(t)
	pipe := client.Pipeline()
	for i := range answers {
		pipe.Set(t.Context(), fmt.Sprintf("lock:{order:%d}:answer", i), "1700000000000000 1800000000000000 f 1 json \n"+strings.Repeat("x", 500), time.Hour)
		if i%1000 == 999 || i == answers-1 {
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range lost {
		begun(t, client, fmt.Sprint("lost:", i))
	}
	if err := client.ConfigSet(t.Context(), "slowlog-log-slower-than", "1000").Err(); err != nil {
		t.Fatal(err)
	}
	kept := false
	for attempt := 0; attempt < attempts && !kept; attempt++ {
		if err := client.Do(t.Context(), "SLOWLOG", "RESET").Err(); err != nil {
			t.Fatal(err)
		}
		var out lines
		began := time.Now()
		if number := run(t.Context(), []string{"uncertain", "--redis", "redis://" + server.Addr()}, strings.NewReader(""), &out, io.Discard); number != 0 || out.n != lost+1 {
			t.Fatalf("status %d, %d lines", number, out.n)
		}
		took := time.Since(began)
		slow, err := client.SlowLogGet(t.Context(), 128).Result()
		if err != nil {
			t.Fatal(err)
		}
		slowest := time.Duration(0)
		for _, one := range slow {
			slowest = max(slowest, one.Duration)
		}
		t.Logf("%d answers: all after %v; %d commands over 1 ms, the longest %v", answers, took, len(slow), slowest)
		kept = slowest <= longest
	}
	if !kept {
		t.Errorf("no list has no command over %v", longest)
	}
}
