package main

import (
	"context"
	"fmt"
	"regexp"
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
	s.run("", "policy", "set", "shop/pay", "wait=6s", "--author", "eve@shell")
	s.run("", "policy", "set", "shop/pay", "wait=5s", "ttl=1m", "--for", "1h", "--author", "ada@shell", "--reason", "INC-42", "-o", "json")
	s.run("", "policy", "set", "shop/*", "maxHold=none", "--author", "ada@shell")
	s.run("n\n", "policy", "set", "shop/*", "maxHold=none", "--for", "1h", "--author", "ada@shell")
	s.run("yes\n", "policy", "set", "s*/pay", "maxHold=none", "--for", "1h", "--author", "ada@shell", "--reason", "INC-42")
	s.run("", "policy", "set", "shop/*", "maxHold=none", "--author", "ada@shell", "-o", "json", "-y")
	s.run("", "policy", "set", "shop/pay", "shadow=true", "--author", "ada@shell", "--reason", "INC-43")
	s.run("no\n", "policy", "set", "*/*", "shadow=true", "--author", "ada@shell", "--reason", "INC-43")
	s.run("", "policy", "set", "shop/mail", "shadow=true", "--for", "1h", "--author", "ada@shell", "--reason", "INC-43", "-y")
	s.run("", "policy", "set", "shop/mail", "shadow=false", "--for", "1h", "--author", "ada@shell")
	for name, text := range map[string]string{"shop/it's": `{"wait":"none","author":"eve"}`, "shop/over": `{"wait":"5s","set":1,"until":2}`, "shop/junk": `x`, "shop/late": `{"wait":"5s","until":9000000000000000000}`, "other": `{"wait":"5s"}`} {
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
	s.run("", "policy", "set", "shop/over", "wait=7s", "--for", "1h", "--author", "ada@shell")
	s.run("", "policy", "set", "shop/late", "wait=7s", "--for", "1h", "--author", "ada@shell")
	for _, name := range []string{"shop/over", "shop/late", "s*/pay", "shop/mail", "other", "shop/*", "shop/pay"} {
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

// Golden files have all durations alike.
func TestSetAndClearSayWhatWasThere(t *testing.T) {
	addr := redistest.Real(t).Addr()
	const answers = "a service that it is for counts it in lockmw_settings; one that refuses it says so in its log, its console and lockmw_settings_refused: lockctl does not see it\n"
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"set", "shop/pay", "wait=4s", "maxHold=20s", "--author", "ada", "--reason", "INC-1"}, "set shop/pay to wait=4s maxHold=20s\nit stays until somebody runs: lockctl policy clear shop/pay\n" + answers},
		{[]string{"set", "shop/pay", "-y", "wait=6s", "--for", "1h", "--author", "eve"}, "set shop/pay to wait=6s for 1h0m0s\nthis replaces wait=4s maxHold=20s (by ada: INC-1)\n" + answers},
		{[]string{"clear", "shop/pay"}, "cleared shop/pay: wait=6s, with … left (by eve)\n"},
		{[]string{"set", "shop/*", "-y", "wait=6s", "--author", "eve"}, "set 'shop/*' to wait=6s\nit stays until somebody runs: lockctl policy clear 'shop/*'\n" + answers},
	} {
		if got := lockctl(t, "", append(append([]string{"policy"}, step.args...), "--redis", "redis://"+addr)...); got.status != 0 || regexp.MustCompile(`with \S+ left`).ReplaceAllString(got.out, "with … left") != step.want {
			t.Errorf("%q: %+v, want\n%s", step.args, got, step.want)
		}
	}
}

// A slip of the hand must not change every service, or take a lock away.
func TestSetAsksBeforeItChangesMuch(t *testing.T) {
	server := redistest.Real(t)
	redisFlag := "redis://" + server.Addr()
	for _, args := range [][]string{{"shop/*", "wait=5s"}, {"*/pay", "wait=5s"}, {"shop/pay", "shadow=true", "--reason", "INC-42"}} {
		set := append([]string{"policy", "set", "--redis", redisFlag}, args...)
		for _, answer := range []string{"", "\n", "n\n", "no"} {
			if got := lockctl(t, answer, set...); got.status != statusUnconfirmed || !strings.Contains(got.errs, "[y/N] ") || !strings.Contains(got.errs, "lockctl: not set") || got.out != "" {
				t.Errorf("%q, %q: %+v", args, answer, got)
			}
		}
		if n := server.Client(t).HLen(t.Context(), "lockmw:settings:lock").Val(); n != 0 {
			t.Errorf("%q: it was set", args)
		}
		for _, yes := range []call{lockctl(t, "y\n", set...), lockctl(t, "", append(set, "--yes")...)} {
			if yes.status != 0 {
				t.Errorf("%q: %+v", args, yes)
			}
		}
		if got := lockctl(t, "", "policy", "clear", "--redis", redisFlag, args[0]); got.status != 0 {
			t.Errorf("%+v", got)
		}
	}
	for _, args := range [][]string{{"shop/pay", "wait=5s", "ttl=10s", "--for", "1h"}, {"shop/pay", "wait=6s", "ttl=20s"}, {"shop/mail", "shadow=false"}} {
		if got := lockctl(t, "", append([]string{"policy", "set", "--redis", redisFlag}, args...)...); got.status != 0 || strings.Contains(got.errs, "[y/N]") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	// What somebody has set for an incident must not go because somebody else sets something else.
	other := []string{"policy", "set", "--redis", redisFlag, "shop/pay", "ttl=30s"}
	if got := lockctl(t, "n\n", other...); got.status != statusUnconfirmed || !strings.Contains(got.errs, "This takes away wait=6s ttl=20s") {
		t.Errorf("%+v", got)
	}
	if got := lockctl(t, "y\n", other...); got.status != 0 {
		t.Errorf("%+v", got)
	}
}

// What somebody else sets while a person thinks about the question stays, and the person is told.
func TestSetOverwritesNothingThatWasNotShown(t *testing.T) {
	server := redistest.Real(t)
	client, redisFlag := server.Client(t), "redis://"+server.Addr()
	const hash = "lockmw:settings:lock"
	for _, tc := range []struct {
		before, meanwhile string // empty: nothing
		says              string
	}{
		{`{"wait":"6s","author":"ada"}`, `{"wait":"7s","author":"eve","reason":"INC-43"}`, "it was wait=6s (by ada), and is wait=7s (by eve: INC-43) by now; look again"},
		{`{"wait":"6s"}`, "", "it was wait=6s, and is not set by now"},
		{"", `{"shadow":"true"}`, "it was not set, and is shadow=true by now"},
		{`x`, `{"wait":"7s"}`, "it was what could not be read: it is no JSON object, and is wait=7s by now"},
	} {
		change := func(text string) {
			t.Helper()
			err := client.HDel(t.Context(), hash, "shop/*").Err()
			if text != "" {
				err = client.HSet(t.Context(), hash, "shop/*", text).Err()
			}
			if err != nil {
				t.Error(err)
			}
		}
		change(tc.before)
		set := []string{"policy", "set", "shop/*", "ttl=1m", "--redis", redisFlag}
		var out, errs strings.Builder
		got := run(t.Context(), set, &handing{func() { change(tc.meanwhile) }, strings.NewReader("y\n")}, &out, &errs)
		if got != statusUnconfirmed || !strings.Contains(errs.String(), "not set: somebody has changed 'shop/*' meanwhile: "+tc.says) || out.Len() > 0 {
			t.Errorf("%s, then %s: status %d\n%s%s", tc.before, tc.meanwhile, got, out.String(), errs.String())
		}
		if is := client.HGet(t.Context(), hash, "shop/*").Val(); is != tc.meanwhile {
			t.Errorf("%s is overwritten by %s", tc.meanwhile, is)
		}
	}
	if got := lockctl(t, "", "policy", "set", "shop/*", "ttl=1m", "--yes", "--redis", redisFlag); got.status != 0 || !strings.Contains(got.out, "this replaces wait=7s") {
		t.Errorf("with --yes: %+v", got)
	}
}
