package redistest

import (
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Example returns a client of an embedded Redis for an example, which has no
// testing.TB, and a function that closes both.
func Example() (client *redis.Client, closeAll func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatalf("redistest: start an embedded Redis: %v", err)
	}
	server.ClockTTL(true)
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() {
		_ = client.Close()
		server.Close()
	}
}
