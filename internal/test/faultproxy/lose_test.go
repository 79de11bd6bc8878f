package faultproxy

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// Of a subscription by name and one by pattern exactly the messages are lost that match,
// whichever protocol the client speaks, and all else passes.
func TestMessagesAreLost(t *testing.T) {
	for name, version := range map[string]int{"RESP2": 2, "RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			p, server, key := stage(t)
			client := redistest.NewClient(t, p.Addr(), func(o *redis.Options) { o.Protocol = version })
			by, like := client.Subscribe(t.Context(), key), client.PSubscribe(t.Context(), key+"*")
			defer by.Close()
			defer like.Close()
			for _, sub := range []*redis.PubSub{by, like} {
				if _, err := sub.Receive(t.Context()); err != nil { // the confirmation
					t.Fatal(err)
				}
			}
			say := func(what string) {
				if err := server.Client(t).Publish(t.Context(), key, what).Err(); err != nil {
					t.Fatal(err)
				}
			}
			p.LoseMessages(MessageOf("contended"))
			say("one")
			say("contended 1")
			say("two")
			if err := by.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "both are lost", func() bool { return p.lostMessages() == 2 })
			p.LoseMessages(nil)
			say("contended 2")
			for _, sub := range []*redis.PubSub{by, like} {
				var got []string
				for len(got) < 3 {
					what, err := sub.Receive(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if m, ok := what.(*redis.Message); ok {
						got = append(got, m.Payload)
					}
				}
				if want := []string{"one", "two", "contended 2"}; !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if n := p.lostMessages(); n != 2 {
				t.Errorf("%d are lost, want 2", n)
			}
		})
	}
}
