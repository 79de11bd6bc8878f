package standin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A tape records the commands of a client.
type tape struct {
	mu   sync.Mutex
	said []string
}

func (*tape) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (*tape) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p *tape) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "set" || name == "del" || name == "evalsha" {
			p.mu.Lock()
			p.said = append(p.said, written(cmd.Args()))
			p.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// values and hashes are different each time, and so are the last digits of a rest of time.
var (
	values = regexp.MustCompile(`ADDED:[0-9-]+T[0-9:.]+Z@\S+:[0-9a-f-]{36}|\b[0-9a-f]{32}\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b`)
	rests  = regexp.MustCompile(`\b5\d{4}\b`)
	hashes = regexp.MustCompile(`^evalsha [0-9a-f]{40}`)
)

// written returns a command as one text.
func written(args []any) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	text := hashes.ReplaceAllString(strings.Join(words, " "), "script")
	return rests.ReplaceAllString(values.ReplaceAllString(text, "VALUE"), "REST")
}

// What ShedLock and lock4j send was recorded once from their own classes, which were run in a JVM. The order of NX and
// PX is the client's, and so is EX for whole seconds.
func TestTheCommandsAreThoseOfTheLibraries(t *testing.T) {
	done := func(context.Context) error { return nil }
	key := redistest.Prefix(t)
	for _, tc := range []struct {
		name string
		run  func(client *redis.Client) error
		want []string
	}{
		{"ShedLock", func(client *redis.Client) error {
			s := &ShedLock{Client: client, KeyPrefix: "job-lock", Environment: "default"}
			_, err := s.Execute(t.Context(), key+"1", 10*time.Minute, 0, done)
			return err
		}, []string{"set job-lock:default:" + key + "1 VALUE ex 600 nx", "del job-lock:default:" + key + "1"}},
		{"ShedLock with lockAtLeastFor", func(client *redis.Client) error {
			s := &ShedLock{Client: client, KeyPrefix: "job-lock", Environment: "default"}
			_, err := s.Execute(t.Context(), key+"2", 10*time.Minute, time.Minute, done)
			return err
		}, []string{"set job-lock:default:" + key + "2 VALUE ex 600 nx", "set job-lock:default:" + key + "2 VALUE px REST xx"}},
		{"ShedLock with safeUpdate", func(client *redis.Client) error {
			s := &ShedLock{Client: client, KeyPrefix: "job-lock", Environment: "default", SafeUpdate: true}
			_, err := s.Execute(t.Context(), key+"3", 10*time.Minute, 0, done)
			return err
		}, []string{"set job-lock:default:" + key + "3 VALUE ex 600 nx", "script 1 job-lock:default:" + key + "3 VALUE"}},
		{"ShedLock with safeUpdate and lockAtLeastFor", func(client *redis.Client) error {
			s := &ShedLock{Client: client, KeyPrefix: "job-lock", Environment: "default", SafeUpdate: true}
			_, err := s.Execute(t.Context(), key+"4", 10*time.Minute, time.Minute, done)
			return err
		}, []string{"set job-lock:default:" + key + "4 VALUE ex 600 nx", "script 1 job-lock:default:" + key + "4 VALUE REST"}},
		{"lock4j", func(client *redis.Client) error {
			return (&Lock4j{Client: client, Prefix: "lock4j"}).Invoke(t.Context(), "{order", []string{key, "5}"}, 10*time.Second, time.Second, done)
		}, []string{"script 1 lock4j:{order#" + key + ".5} VALUE 10000", "script 1 lock4j:{order#" + key + ".5} VALUE"}},
		{"DistributedLock", func(client *redis.Client) error {
			d := DistributedLock{Prefix: "pay-", KeyTimeout: 10 * time.Second, RetryCount: 1, RetryInterval: time.Millisecond, Format: "lock:{%s}"}
			return d.Around(t.Context(), client, key+"6", done)
		}, []string{"set lock:{pay-" + key + "6} VALUE ex 10 nx", "script 1 lock:{pay-" + key + "6} VALUE"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			heard := new(tape)
			client.AddHook(heard)
			if err := tc.run(client); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(heard.said, tc.want) {
				t.Errorf("sent are\n%s\nwant\n%s", strings.Join(heard.said, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

// Each asks again as often as its library does, and then says what that says.
func TestWhoIsRefusedAsksAgain(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	heard := new(tape)
	client.AddHook(heard)
	key := redistest.Prefix(t)
	attempts := func() int {
		n := len(heard.said)
		heard.said = nil
		return n
	}
	never := func(context.Context) error {
		t.Error("it works without its lock")
		return nil
	}
	for _, name := range []string{"job-lock:default:" + key, "lock4j:" + key + "#", key} {
		if err := client.Set(t.Context(), name, "somebody", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	attempts()

	s := &ShedLock{Client: client, KeyPrefix: "job-lock", Environment: "default"}
	if ran, err := s.Execute(t.Context(), key, time.Minute, 0, never); ran || err != nil || attempts() != 1 {
		t.Errorf("ShedLock: %v, %v; want one attempt, and no error", ran, err)
	}
	l := &Lock4j{Client: client, Prefix: "lock4j"}
	if err := l.Invoke(t.Context(), key, nil, time.Minute, 50*time.Millisecond, never); !errors.Is(err, ErrLockFailure) || attempts() != 1 {
		t.Errorf("lock4j: %v, want one attempt and %v", err, ErrLockFailure)
	}
	d := DistributedLock{Prefix: key, KeyTimeout: time.Minute, RetryCount: 3, RetryInterval: time.Millisecond, Format: "%s"}
	if err := d.Around(t.Context(), client, "", never); err != nil {
		t.Errorf("DistributedLock: %v, want nil", err)
	}
	if n := attempts(); n != 4 {
		t.Errorf("DistributedLock: %d attempts, want 4", n)
	}
}
