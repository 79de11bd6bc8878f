package admin

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

// A client whose dials have failed goes on to answer with the old error for a moment when its server is there again.
// Do and Retry must outlast that.
func TestAClientIsOfUseRightAfterARestart(t *testing.T) {
	for name, ask := range map[string]func(*redis.Client) error{
		"Do":    func(c *redis.Client) error { return Do(c, "GET", "no such key") },
		"Retry": func(c *redis.Client) error { return Retry(func() error { _, err := Locks(c, "lock:*"); return err }) },
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Real(t)
			client := Clients(t, []*redistest.Server{s})[0]
			s.Kill()
			for range 2 * client.Options().PoolSize {
				if err := client.Ping(t.Context()).Err(); err == nil {
					t.Fatal("a server that was killed answers")
				}
			}
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			if err := ask(client); err != nil {
				t.Error(err)
			}
		})
	}
}
