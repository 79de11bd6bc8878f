package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/settings"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// settingsLife sets, lists and clears.
func settingsLife(t *testing.T, s *script, client redis.UniversalClient) {
	t.Helper()
	s.run("", "policy", "ls")
	s.run("", "policy", "set", "shop/pay", "wait=5s", "ttl=1m", "--for", "1h", "--author", "ada@shell", "--reason", "INC-42")
	s.run("", "policy", "set", "shop/*", "maxHold=none", "--author", "ada@shell", "-o", "json")
	for name, text := range map[string]string{"shop/it's": `{"wait":"none","author":"eve"}`, "shop/over": `{"wait":"5s","set":1,"until":2}`, "shop/junk": `x`, "other": `{"wait":"5s"}`} {
		if err := client.HSet(t.Context(), "lockmw:settings:lock", name, text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.run("", "policy", "ls")
	s.run("", "policy", "ls", "shop/", "-o", "json")
	s.run("", "policy", "ls", "none/")
	s.run("", "__complete", "policy", "clear", "shop/")
	s.run("", "__complete", "policy", "set", "shop/pay", "")
	s.run("", "__complete", "policy", "set", "shop/pay", "m")
	s.run("", "policy", "clear", "shop/it's")
	s.run("", "policy", "clear", "shop/junk", "-o", "json")
	s.run("", "policy", "clear", "shop/none")
	for _, name := range []string{"shop/over", "other", "shop/*", "shop/pay"} {
		s.run("", "policy", "clear", name)
	}
	s.run("", "policy", "ls", "--namespace", "other")
}

// A service sees what is set, for as long as it is to last.
func TestAServiceSeesWhatIsSet(t *testing.T) {
	server := redistest.Real(t)
	seen := make(chan lockmw.Event, 10)
	l, err := lockmw.New(server.Client(t), lockmw.WithService("shop"), lockmw.WithSettings(lockmw.SettingsInRedis()), lockmw.WithObserver(observe(seen)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(ended())
	t.Setenv("USER", "ada")
	if got := lockctl(t, "", "policy", "set", "shop/pay", "wait=none", "--for", "2s", "--reason", "INC-42", "--redis", "redis://"+server.Addr()); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	s := await.Receive(t, "its begin", seen).Setting
	if left := s.Ends.Sub(s.Since); s.Change != "wait=none" || s.Reason != "INC-42" || !strings.HasPrefix(s.Author, "ada@") || left <= 0 || left > 2*time.Second {
		t.Errorf("%+v, for %v", *s, left)
	}
	if e := await.Receive(t, "its end", seen); e.Kind != lockmw.EventSettingEnded {
		t.Errorf("%v", e.Kind)
	}
}

// Those who set different names at the same time do not lose each other's.
func TestSettingsThatAreSetAtTheSameTimeAreAllThere(t *testing.T) {
	server := redistest.Real(t)
	const many = 20
	var running sync.WaitGroup
	for i := range many {
		running.Go(func() {
			if got := lockctl(t, "", "policy", "set", fmt.Sprint("shop/name", i), "wait=5s", "--redis", "redis://"+server.Addr()); got.status != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
	running.Wait()
	texts := server.Client(t).HGetAll(t.Context(), "lockmw:settings:lock").Val()
	for i := range many {
		if e, err := settings.Parse(texts[fmt.Sprint("shop/name", i)]); err != nil || e.Wait != 5*time.Second || e.Author == "" {
			t.Errorf("name%d: %+v, %v", i, e, err)
		}
	}
}

// observe sends the events of settings on.
func observe(seen chan<- lockmw.Event) func(context.Context, lockmw.Event) {
	return func(_ context.Context, e lockmw.Event) {
		if e.Setting != nil {
			seen <- e
		}
	}
}
