package faultproxy

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestDroppedReplyIsCarriedOutAndNotTold(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		p, key := Start(t, s.Addr()), redistest.Prefix(t)+"k"
		client := redistest.NewClient(t, p.Addr(), oneTry)
		p.DropReplies(1, Match("INCR"))
		if err := client.Incr(t.Context(), key).Err(); !errors.Is(err, io.EOF) {
			t.Errorf("INCR = %v, want %v", err, io.EOF)
		}
		if got := client.Get(t.Context(), key).Val(); got != "1" {
			t.Errorf("counter = %q, want 1", got)
		}
		if got := p.Dropped(); got != 1 {
			t.Errorf("dropped = %d, want 1", got)
		}
		if got := client.Incr(t.Context(), key).Val(); got != 2 {
			t.Errorf("next INCR = %d, want 2", got)
		}
	})
}

// The trap that this fault is for: a client that retries on its own counts twice.
func TestRetryAfterDroppedReplyRunsTwice(t *testing.T) {
	p, _, key := stage(t)
	client := redistest.NewClient(t, p.Addr())
	p.DropReplies(1, Match("INCR"))
	if got := client.Incr(t.Context(), key).Val(); got != 2 {
		t.Errorf("INCR = %d, want 2", got)
	}
}

func TestExactlySoManyRepliesAreDropped(t *testing.T) {
	const drops, workers, rounds = 200, 16, 50
	p, server, key := stage(t)
	client := redistest.NewClient(t, p.Addr(), oneTry)
	p.DropReplies(drops, Match("INCR"))
	var failed atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				if client.Incr(t.Context(), key).Err() != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := p.Dropped(); got != drops {
		t.Errorf("dropped = %d, want %d", got, drops)
	}
	if got := failed.Load(); got != drops {
		t.Errorf("failed commands = %d, want %d", got, drops)
	}
	if got, want := server.Client(t).Get(t.Context(), key).Val(), strconv.Itoa(workers*rounds); got != want {
		t.Errorf("counter = %s, want %s", got, want)
	}
}

func TestOnlyTheMatchingReplyOfAPipelineIsDropped(t *testing.T) {
	p, server, key := stage(t)
	w := dial(t, p.Addr())
	p.DropReplies(5, Match("INCRBY"))
	w.send("INCR", key)
	w.send("GET", key)
	w.send("INCRBY", key, "10")
	w.send("INCRBY", key, "100") // behind the request that ends the connection
	w.expect(":1")
	w.expect("$1 1")
	w.expectEnd()
	if got := server.Client(t).Get(t.Context(), key).Val(); got != "11" {
		t.Errorf("counter = %s, want 11", got)
	}
	if got := p.Dropped(); got != 1 {
		t.Errorf("dropped = %d, want 1", got)
	}
}

func TestKeptOpenConnectionIsSilent(t *testing.T) {
	p, server, key := stage(t)
	w := dial(t, p.Addr())
	p.DropReplies(1, Match("INCR"), KeepOpen())
	w.send("INCR", key)
	await.Until(t, "the reply is dropped", func() bool { return p.Dropped() == 1 })
	w.expectSilence()
	w.send("INCR", key)
	w.expectSilence()
	if got := server.Client(t).Get(t.Context(), key).Val(); got != "1" {
		t.Errorf("counter = %s, want 1", got)
	}
	if got := p.Dropped(); got != 1 {
		t.Errorf("dropped = %d, want 1", got)
	}
	w.Close()
	await.Until(t, "the connection ends", func() bool { return p.Connections() == 0 })
}

func TestScriptsReplyIsDropped(t *testing.T) {
	const source = "return redis.call('INCR', KEYS[1])"
	p, server, key := stage(t)
	client := redistest.NewClient(t, p.Addr(), oneTry)
	script := redis.NewScript(source)
	if err := script.Load(t.Context(), client).Err(); err != nil {
		t.Fatal(err)
	}
	p.DropReplies(1, MatchScript(source))
	if err := script.Run(t.Context(), client, []string{key}).Err(); !errors.Is(err, io.EOF) {
		t.Errorf("script = %v, want %v", err, io.EOF)
	}
	if got := server.Client(t).Get(t.Context(), key).Val(); got != "1" {
		t.Errorf("counter = %s, want 1", got)
	}
}

func TestRequestWithoutReplyIsNotCounted(t *testing.T) {
	p, _, key := stage(t)
	p.DropReplies(1, Match("BLPOP", "GET"))
	w := dial(t, p.Addr())
	w.send("BLPOP", key, "0")
	await.Until(t, "BLPOP arrives", func() bool { return p.Commands()["BLPOP"] == 1 })
	w.Close()
	await.Until(t, "its connection ends", func() bool { return p.Connections() == 0 })
	if got := p.Dropped(); got != 0 {
		t.Errorf("dropped = %d, want 0", got)
	}
	w = dial(t, p.Addr())
	w.send("GET", key)
	w.expectEnd()
	if got := p.Dropped(); got != 1 {
		t.Errorf("dropped = %d, want 1", got)
	}
}

func TestNewCallTakesThePlaceOfTheOld(t *testing.T) {
	p, _, key := stage(t)
	p.DropReplies(9, nil)
	p.DropReplies(0, nil)
	w := dial(t, p.Addr())
	w.send("INCR", key)
	w.expect(":1")
	p.DropReplies(1, nil)
	w.send("INCR", key)
	w.expectEnd()
}

func TestReplacedCallTakesNoMoreRequests(t *testing.T) {
	p, _, key := stage(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	p.DropReplies(1, func([]byte) bool {
		close(asked)
		<-answer
		return true
	})
	w := dial(t, p.Addr())
	w.send("INCR", key)
	<-asked
	p.DropReplies(0, nil)
	close(answer)
	w.expect(":1")
}

func TestKeptOpenConnectionGetsNoMessages(t *testing.T) {
	p, server, channel := stage(t)
	w := dial(t, p.Addr())
	w.send("SUBSCRIBE", channel)
	w.expect("*3 $9 subscribe $" + strconv.Itoa(len(channel)) + " " + channel + " :1")
	p.DropReplies(1, Match("PING"), KeepOpen())
	w.send("PING")
	await.Until(t, "the reply is dropped", func() bool { return p.Dropped() == 1 })
	if got := server.Client(t).Publish(t.Context(), channel, "m").Val(); got != 1 {
		t.Errorf("subscribers = %d, want 1", got)
	}
	w.expectSilence()
}

// Messages that arrive between a request and its reply must neither be dropped
// in its place nor shift what is dropped.
func TestMessagesAreNotTakenForReplies(t *testing.T) {
	for _, tc := range []struct {
		name, push string
		hello      bool
	}{
		{name: "RESP2", push: "*"},
		{name: "RESP3", push: ">", hello: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, server, channel := stage(t)
			direct := server.Client(t)
			named := "$" + strconv.Itoa(len(channel)) + " " + channel
			w := dial(t, p.Addr())
			if tc.hello {
				w.send("HELLO", "3")
				w.deadline(patience)
				if _, err := readReply(w.r); err != nil {
					t.Fatal(err)
				}
			}
			w.send("SUBSCRIBE", channel, channel)
			w.expect(tc.push + "3 $9 subscribe " + named + " :1")
			w.expect(tc.push + "3 $9 subscribe " + named + " :1")
			for _, text := range []string{"a", "b"} {
				if err := direct.Publish(t.Context(), channel, text).Err(); err != nil {
					t.Fatal(err)
				}
			}
			p.DropReplies(1, Match("PING"))
			w.expect(tc.push + "3 $7 message " + named + " $1 a")
			w.send("PING")
			w.expect(tc.push + "3 $7 message " + named + " $1 b")
			w.expectEnd()
			if got := p.Dropped(); got != 1 {
				t.Errorf("dropped = %d, want 1", got)
			}
		})
	}
}
