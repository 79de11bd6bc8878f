package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

// anyCommand draws one of the commands that the scripts use, with any of the options that they use. Times are hours, so that it does not
// matter how long the test takes; no two are the same.
func anyCommand(r *rand.Rand, nth int) []string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	name, member := pick("a", "b", "c"), pick("x", "y", "z")
	at := pick("-inf", "0", "(1", "1.5", "2", "1700000000123456", "+inf")
	ms := fmt.Sprint((1 + nth) * int(time.Hour/time.Millisecond))
	all := [][]string{
		{"SET", name, member, "PX", ms},
		{"SET", name, member, "NX", "PX", ms},
		{"SET", name, member, "NX", "GET", "PX", ms},
		{"SET", name, member, "KEEPTTL"}, {"SET", name, member, "PX", "0"},
		{"SET", name, member},
		{"SET", name, member, "GET"},
		{"GET", name},
		{"DEL", name}, {"DEL", "a", "c", name},
		{"EXISTS", "a", "b", name},
		{"PTTL", name},
		{"PEXPIRE", name, ms}, {"PEXPIRE", name, ms, "GT"}, {"PEXPIRE", name, "0"},
		{"ZADD", name, pick("1", "2", "1.5", "1700000000123456", "0"), member},
		{"ZADD", name, "NX", pick("1", "2", "-3"), member},
		{"ZREM", name, member}, {"ZREM", name, "x", "y"},
		{"ZSCORE", name, member},
		{"ZCARD", name},
		{"ZCOUNT", name, at, "+inf"},
		{"ZRANGE", name, "0", "-1", "WITHSCORES"}, {"ZRANGE", name, "-1", "-1"}, {"ZRANGE", name, "1", "5"},
		{"ZRANGE", name, at, "+inf", "BYSCORE", "WITHSCORES"}, {"ZRANGE", name, at, "+inf", "BYSCORE", "LIMIT", "0", "1"},
		{"ZRANGE", name, at, "-inf", "BYSCORE", "REV", "LIMIT", "0", "2", "WITHSCORES"},
		{"ZRANGE", name, "-inf", pick("(1", "(1.5", "(1700000000123456"), "BYSCORE", "LIMIT", "0", "2"},
		{"ZRANGE", name, at, "+inf", "BYSCORE", "LIMIT", "0", "2", "WITHSCORES"},
		{"ZPOPMIN", name},
		{"HSET", name, member, pick("1", "2", `{"wait": "5s"}`)},
		{"HGET", name, member},
		{"HDEL", name, member},
		{"HGETALL", name},
		{"KEYS", "*"},
	}
	return all[r.IntN(len(all))]
}

// The store answers any sequence of commands as a real server does.
func TestTheStoreAnswersAsARedisDoes(t *testing.T) {
	server := redistest.Real(t).Client(t, func(o *redis.Options) { o.Protocol = 2 }) // whose replies have the forms that scripts see
	store := NewKeyspace()
	defer store.Close()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var sent [][]string
	for nth := range 4000 {
		command := anyCommand(r, nth)
		sent = append(sent, command)
		want := replyOf(t, server, command)
		got, ok := store.Do(time.Now(), command)
		if !ok || !alike(command[0], got, want) {
			t.Fatalf("seed %d: behind %q the reply to %q is %#v (%t), want %#v", seed, sent[max(0, nth-20):nth], command, got, ok, want)
		}
	}
}

// replyOf returns a server's reply in the store's forms.
func replyOf(t *testing.T, server *redis.Client, command []string) any {
	t.Helper()
	args := make([]any, len(command))
	for i, arg := range command {
		args[i] = arg
	}
	reply, err := server.Do(context.Background(), args...).Result()
	var refused redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case errors.As(err, &refused):
		return Failure(err.Error())
	case err != nil:
		t.Fatal(err)
	}
	return reply
}

// alike reports whether two replies are the same, but for the order of names and for what passes between two questions.
func alike(command string, got, want any) bool {
	if text, status := got.(Status); status {
		got = string(text)
	}
	switch command {
	case "PTTL":
		g, ok1 := got.(int64)
		w, ok2 := want.(int64)
		return ok1 && ok2 && (g == w || g > 0 && w > 0 && max(g-w, w-g) < 2*time.Second.Milliseconds())
	case "KEYS", "HGETALL": // without an order, or with another than the store's
		return sameMembers(got, want)
	}
	return reflect.DeepEqual(got, want)
}

func sameMembers(got, want any) bool {
	g, ok1 := got.([]any)
	w, ok2 := want.([]any)
	if !ok1 || !ok2 {
		return reflect.DeepEqual(got, want)
	}
	return reflect.DeepEqual(sortedTexts(g), sortedTexts(w))
}

func sortedTexts(all []any) (texts []string) {
	for _, one := range all {
		texts = append(texts, fmt.Sprint(one))
	}
	slices.Sort(texts)
	return texts
}

// A key is gone when its time is over, by the clock of the server.
func TestKeysEndByTheServersClock(t *testing.T) {
	k := NewKeyspace()
	defer k.Close()
	began := time.UnixMilli(1_700_000_000_000)
	do := func(after time.Duration, args ...string) any {
		t.Helper()
		reply, ok := k.Do(began.Add(after), args)
		if !ok {
			t.Fatalf("%q is not carried out", args)
		}
		return reply
	}
	do(0, "SET", "k", "v", "PX", "1000")
	if got := do(time.Second, "GET", "k"); got != "v" {
		t.Errorf("in the millisecond in which it ends: %v, want it as Redis has it", got)
	}
	if got := do(1001*time.Millisecond, "GET", "k"); got != nil {
		t.Errorf("behind its end: %v", got)
	}
	do(2*time.Second, "SET", "k", "v", "PX", "5000")
	k.Skew = 5*time.Second + time.Millisecond
	if got := do(2*time.Second, "GET", "k"); got != nil {
		t.Errorf("with the clock set forward: %v", got)
	}
	if got := do(0, "TIME"); !reflect.DeepEqual(got, []any{"1700000005", "1000"}) {
		t.Errorf("TIME = %v", got)
	}
}

// A script that was not loaded is not known, and one that was is until scripts are forgotten; what it says comes as a reply.
func TestScripts(t *testing.T) {
	k := NewKeyspace()
	defer k.Close()
	var told []string
	k.Publish = func(channel, text string) { told = append(told, channel+" "+text) }
	do := func(args ...string) any {
		t.Helper()
		reply, ok := k.Do(time.Now(), args)
		if !ok {
			t.Fatalf("%q is not carried out", args)
		}
		return reply
	}
	const script = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('PUBLISH', 'c', 'm') return {redis.call('GET', KEYS[1]), #KEYS, false}"
	hash := hashOf(script)
	const unknown = Failure("NOSCRIPT No matching script. Please use EVAL.")
	if got := do("EVALSHA", hash, "1", "k", "v"); got != unknown {
		t.Errorf("unknown: %v", got)
	}
	want := []any{"v", int64(1), nil}
	for _, command := range [][]string{{"EVAL", script}, {"EVALSHA", hash}} {
		if got := do(append(command, "1", "k", "v")...); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", command[0], got, want)
		}
	}
	if !slices.Equal(told, []string{"c m", "c m"}) {
		t.Errorf("told: %q", told)
	}
	do("SCRIPT", "FLUSH")
	if got := do("EVALSHA", hash, "1", "k", "v"); got != unknown {
		t.Errorf("behind SCRIPT FLUSH: %v", got)
	}
	if got := do("SCRIPT", "LOAD", script); got != hash {
		t.Errorf("SCRIPT LOAD = %v", got)
	}
	if got := do("SCRIPT", "EXISTS", hash, "other"); !reflect.DeepEqual(got, []any{int64(1), int64(0)}) {
		t.Errorf("SCRIPT EXISTS = %v", got)
	}
	if got := do("EVAL", "return redis.error_reply('TRYAGAIN later')", "0"); got != Failure("TRYAGAIN later") {
		t.Errorf("an error is %v", got)
	}
	if _, ok := k.Do(time.Now(), []string{"CLIENT", "ID"}); ok {
		t.Error("CLIENT was carried out")
	}
}
