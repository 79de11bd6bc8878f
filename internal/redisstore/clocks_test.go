package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

// saysTime has an embedded Redis say that its clock is ahead of this machine's.
func saysTime(m *redistest.Mini, ahead time.Duration) {
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "TIME" {
			return false
		}
		now := time.Now().Add(ahead)
		c.WriteStrings([]string{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)})
		return true
	})
}

// refusesTime has an embedded Redis not tell its time, as where the user may not ask for it.
func refusesTime(m *redistest.Mini) {
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd == "TIME" {
			c.WriteError("NOPERM this user has no permissions to run the 'time' command")
		}
		return cmd == "TIME"
	})
}

// wantClocks fails the test unless the advice about the clocks has these beginnings. All masters are there.
func wantClocks(t *testing.T, what string, s *Store, masters []*redis.Client, want ...string) []error {
	t.Helper()
	var all []clock
	for _, master := range masters {
		one, told, err := s.greet(t.Context(), master)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if told {
			all = append(all, one)
		}
	}
	advice := clocksAdvice(all)
	if len(advice) != len(want) {
		t.Errorf("%s: told %q, want %q", what, advice, want)
		return advice
	}
	for i, one := range advice {
		if !strings.HasPrefix(one.Error(), want[i]) {
			t.Errorf("%s: told %q, want %q", what, one, want[i])
		}
	}
	return advice
}

// The margins are those of a machine on which an answer may take most of a second.
func TestClocksThatDisagreeAreTold(t *testing.T) {
	first, second := redistest.Embedded(t), redistest.Embedded(t)
	a, b := first.Client(t), second.Client(t)
	s := newStore(t, a)
	saysTime(first, 0)
	wantClocks(t, "right", s, []*redis.Client{a})
	saysTime(first, time.Hour)
	wantClocks(t, "ahead", s, []*redis.Client{a}, "the clock of the server is 1h0m")
	saysTime(first, -time.Hour)
	if told := wantClocks(t, "behind", s, []*redis.Client{a}, "the clock of the server is "); !strings.Contains(fmt.Sprint(told), " behind this machine's") {
		t.Errorf("told %q, want that it is behind", told)
	}
	advice, err := s.Health(t.Context())
	if told := fmt.Sprint(errors.Join(advice...)); err != nil || !strings.Contains(told, " behind this machine's") {
		t.Errorf("Health = %q, %v, want that the clock is behind", advice, err)
	}

	s.cluster = true // whose masters they are
	saysTime(first, -900*time.Millisecond)
	saysTime(second, 900*time.Millisecond)
	wantClocks(t, "apart", s, []*redis.Client{b, a}, "the clock of "+first.Addr()+" is 1.")
	saysTime(second, -900*time.Millisecond)
	wantClocks(t, "together", s, []*redis.Client{a, b})
	saysTime(second, -time.Hour)
	wantClocks(t, "one is far away", s, []*redis.Client{a, b}, "the clock of "+second.Addr()+" is ", "the clock of "+second.Addr()+" is ")
	refusesTime(second)
	wantClocks(t, "one does not tell", s, []*redis.Client{a, b})
	s.cluster = false
}
