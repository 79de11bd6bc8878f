package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func found(all []lockmw.Info, err error) func(yield func(lockmw.Info, error) bool) {
	return func(yield func(lockmw.Info, error) bool) {
		for _, i := range all {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(lockmw.Info{}, err)
		}
	}
}

// What hangs is found by --sort and --older: a key that only cools down, or of which nobody knows since when, is not old.
func TestOrderOfLocks(t *testing.T) {
	away := errors.New("a master is away")
	by := func(age time.Duration, cools bool) lockmw.Holder { return lockmw.Holder{Age: age, CoolingDown: cools} }
	locks := []lockmw.Info{
		{Key: "young", Waiting: 9, Holders: []lockmw.Holder{by(time.Second, false)}},
		{Key: "old", Waiting: 1, Holders: []lockmw.Holder{by(time.Hour, false)}},
		{Key: "cools", Holders: []lockmw.Holder{by(2*time.Hour, true)}},
		{Key: "readers", Waiting: 3, Holders: []lockmw.Holder{by(2*time.Minute, false), by(time.Second, false)}},
		{Key: "foreign", Holders: []lockmw.Holder{by(0, false)}},
	}
	for _, tc := range []struct {
		order order
		want  string
	}{
		{order{}, "young old cools readers foreign"},
		{order{by: "age"}, "old readers young cools foreign"},
		{order{by: "waiting"}, "young readers old cools foreign"},
		{order{older: time.Minute}, "old readers"},
		{order{by: "waiting", older: time.Minute}, "readers old"},
		{order{older: 2 * time.Hour}, ""},
	} {
		var got []string
		var failed error
		for i, err := range tc.order.of(found(locks, away)) {
			if failed = err; err == nil {
				got = append(got, i.Key)
			}
		}
		if !slices.Equal(got, strings.Fields(tc.want)) || !errors.Is(failed, away) {
			t.Errorf("%+v: %q, %v, want %q and then the error", tc.order, got, failed, tc.want)
		}
		n := 0
		for range tc.order.of(found(locks, away)) {
			n++
			break // who wants no more gets no more
		}
		if n != 1 {
			t.Errorf("%+v: %d after the first", tc.order, n)
		}
	}
}

// Who runs the command, and why, reaches the holder.
func TestAReleaseSaysWhoAndWhy(t *testing.T) {
	t.Setenv("USER", "ana\n")
	s := redistest.Real(t)
	l := testenv.Open(t, s.Client(t))
	hears := lockmw.Policy{Wait: 30 * time.Second}
	for _, tc := range []struct {
		args   []string
		author string
		reason string
	}{
		{nil, "ana@", ""},
		{[]string{"--reason", "INC-42: it hangs"}, "ana@", "INC-42: it hangs"},
		{[]string{"--author", "bo", "--reason", "x"}, "bo", "x"},
	} {
		_, lease, err := l.Acquire(context.Background(), "k", hears)
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, "it listens", func() bool { return l.Stats().Subscribed })
		got := lockctl(t, "", append([]string{"--redis", at(s, ""), "release", "-y", "k"}, tc.args...)...)
		if got.status != 0 {
			t.Fatalf("%v: %+v", tc.args, got)
		}
		<-lease.Context().Done()
		var revoked *lockmw.RevokedError
		if cause := context.Cause(lease.Context()); !errors.As(cause, &revoked) || !strings.HasPrefix(revoked.Author, tc.author) || revoked.Reason != tc.reason {
			t.Errorf("%v: the holder learns %v", tc.args, cause)
		}
		_ = lease.Release(context.Background())
	}
	if got := lockctl(t, "", "--redis", at(s, ""), "ls", "--sort", "size"); got.status != statusUsage {
		t.Errorf("--sort size: %+v", got)
	}
	if got := lockctl(t, "", "--redis", at(s, ""), "ls", "--older", "1m", "-o", "json"); got.status != statusNothing || json.Valid([]byte(got.out)) {
		t.Errorf("--older of nothing: %+v", got)
	}
}
