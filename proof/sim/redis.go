package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/memnet"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/model"
)

// An embedded is the server of a world: connections, subscriptions and what a client says of itself are the embedded Redis's, and
// keys and scripts those of the model's store, which is several times as fast and whose clock can be moved.
type embedded struct {
	mini *redistest.Mini

	mu    sync.Mutex
	keys  *model.Keyspace
	gaps  time.Duration // up to so long it does something else before some of the commands
	draws *rand.Rand    // which, and for how long

	// sees is told of each command behind it, if it is not nil, and may ask for what a key holds.
	sees func(args []string, get func(name string) any)
}

// newEmbedded starts a server; it ends with the test. Call it inside the bubble.
func newEmbedded(t *testing.T, p Plan) *embedded {
	t.Helper()
	s := &embedded{mini: redistest.InMemory(t), keys: model.NewKeyspace(), gaps: p.Gaps, draws: rand.New(rand.NewPCG(p.Seed, 5))}
	first, err := s.mini.DialInMemory(t.Context(), "", "") // it starts with its first connection
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keys.Close()
	})
	s.keys.Listens = func(channel string) bool { return s.mini.PubSubNumSub(channel)[channel] > 0 }
	s.keys.Publish = func(channel, text string) { s.mini.Publish(channel, text) }
	s.mini.Server().SetPreHook(s.carryOut)
	return s
}

// carryOut carries out a command that is the store's, and reports whether it is.
func (s *embedded) carryOut(c *server.Peer, name string, args ...string) bool {
	time.Sleep(s.gap())
	s.mu.Lock()
	defer s.mu.Unlock()
	reply, ours := s.keys.Do(time.Now(), append([]string{name}, args...))
	if ours && s.sees != nil {
		s.sees(args, func(name string) any { held, _ := s.keys.Do(time.Now(), []string{"GET", name}); return held })
	}
	if ours {
		c.Block(func(w *server.Writer) { write(w, reply) })
	}
	return ours
}

// gap is for how long the server does something else first, such as what others want: a network may bring the commands of one write apart.
func (s *embedded) gap() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gaps == 0 || s.draws.IntN(4) > 0 {
		return 0
	}
	return between(s.draws, 0, s.gaps)
}

// ahead sets the server's clock forward.
func (s *embedded) ahead(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.Skew += by
}

// holder returns the token of the one that has a key's lock alone; "" is nobody, or several.
func (s *embedded) holder(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, _ := s.keys.Do(time.Now(), []string{"GET", "lock:{" + key + "}"})
	text, _ := value.(string)
	return text[:max(0, strings.LastIndex(text, ":"))]
}

// left returns for how long Redis has a key's lock yet; at most 0: it has none.
func (s *embedded) left(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply, _ := s.keys.Do(time.Now(), []string{"PTTL", "lock:{" + key + "}"})
	ms, _ := reply.(int64)
	return time.Duration(ms) * time.Millisecond
}

// write writes a reply.
func write(w *server.Writer, reply any) {
	switch v := reply.(type) {
	case nil:
		w.WriteNull()
	case int64:
		w.WriteInt(int(v))
	case string:
		w.WriteBulk(v)
	case model.Status:
		w.WriteInline(string(v))
	case model.Failure:
		w.WriteError(strings.ReplaceAll(string(v), "\n", " "))
	case []any:
		w.WriteLen(len(v))
		for _, one := range v {
			write(w, one)
		}
	default:
		panic(fmt.Sprintf("reply %T", reply))
	}
}

// client opens a client that no fault reaches.
func (s *embedded) client(t *testing.T) *redis.Client {
	t.Helper()
	return s.mini.Client(t)
}

// dial opens a connection. The server writes to it without waiting for its reader, as a real one does: here one who does not read would
// keep all others from their answers.
func (s *embedded) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	s.mini.Server().ServeConn(memnet.Buffered(theirs))
	return memnet.Buffered(ours), nil
}
