package checks

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// configured is a refusal that a command brings about and another one ends.
func configured(word, how string, begin, end []any, args ...string) refusal {
	return refusal{word: word, how: how, provoke: func(t *testing.T) (redis.UniversalClient, func()) {
		s := redistest.Real(t, redistest.Args(args...))
		raw := s.Client(t)
		do(t, raw, begin...)
		return s.Client(t), func() { do(t, raw, end...) }
	}}
}

func do(t *testing.T, c *redis.Client, args ...any) {
	t.Helper()
	if err := c.Do(context.Background(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

func list(args ...any) []any { return args }

func refusals() []refusal {
	set := func(what, value string) []any { return list("CONFIG", "SET", what, value) }
	return []refusal{
		configured("OOM", "maxmemory 1", set("maxmemory", "1"), set("maxmemory", "0")),
		configured("READONLY", "REPLICAOF", list("REPLICAOF", "127.0.0.1", "1"), list("REPLICAOF", "NO", "ONE")),
		configured("MASTERDOWN", "REPLICAOF, no stale data", list("REPLICAOF", "127.0.0.1", "1"), list("REPLICAOF", "NO", "ONE"),
			"--replica-serve-stale-data", "no"),
		configured("NOREPLICAS", "min-replicas-to-write 1", set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0")),
		configured("WRONGTYPE", "other data under the key", list("HSET", redisKey("k"), "other", "data"), list("DEL", redisKey("k"))),
		{word: "MISCONF", how: "a BGSAVE that fails", provoke: cannotSave},
		{word: "BUSY", how: "an endless script", provoke: busy},
		{word: "LOADING", how: "DEBUG RELOAD with key-load-delay", provoke: loading},
		{word: "NOAUTH", how: "requirepass", provoke: credentials("", "")},
		{word: "WRONGPASS", how: "requirepass", provoke: credentials("", "guess")},
		{word: "NOPERM", how: "an ACL user who may do nothing", provoke: credentials("guest", "secret")},
		{word: "CLUSTERDOWN", how: "a Cluster node without slots", provoke: lonelyNode},
		{word: "CROSSSLOT", how: "played by an embedded server: all keys of a lock are in one slot", provoke: played("CROSSSLOT Keys in request don't hash to the same slot")},
		{word: "MOVED", or: []string{"use redis.NewClusterClient"}, how: "a single-server client on the wrong node of a Cluster", provoke: wrongNode},
		// The server closes the connection as well, which may be noticed first.
		{word: "max number of clients", or: []string{"broken pipe", "connection reset by peer"}, how: "maxclients", provoke: crowded},
	}
}

func cannotSave(t *testing.T) (redis.UniversalClient, func()) {
	s := redistest.Real(t)
	if err := s.FailToSave(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.Client(t), func() { do(t, s.Client(t), "CONFIG", "SET", "stop-writes-on-bgsave-error", "no") }
}

// patient is for commands that do not come back soon.
func patient(o *redis.Options) { o.ReadTimeout, o.MaxRetries = -1, -1 }

func busy(t *testing.T) (redis.UniversalClient, func()) {
	s := redistest.Real(t, redistest.Args("--busy-reply-threshold", "1"))
	raw, loop := s.Client(t), s.Client(t, patient)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = loop.Eval(context.Background(), "while true do end", nil).Err()
	}()
	t.Cleanup(func() { s.Kill(); <-ended })
	await.Within(t, patience, "the server is busy", func() bool {
		return redis.HasErrorPrefix(raw.Ping(context.Background()).Err(), "BUSY")
	})
	return s.Client(t), func() { do(t, raw, "SCRIPT", "KILL") }
}

// loading is over after ten seconds, a millisecond for each key; nobody waits
// for that. Meanwhile the server answers after each KiB that it has read, which is
// four times as many keys where values are compressed.
func loading(t *testing.T) (redis.UniversalClient, func()) {
	s := redistest.Real(t, redistest.Args("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no",
		"--save", "3600 1000000"))
	raw, loader := s.Client(t), s.Client(t, patient)
	fill := `for i = 1, 10000 do redis.call('SET', 'filler:' .. i, string.rep('x', 100)) end return 1`
	do(t, raw, "EVAL", fill, 0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = loader.Do(context.Background(), "DEBUG", "RELOAD").Err()
	}()
	t.Cleanup(func() { s.Kill(); <-ended })
	await.Within(t, patience, "the server loads", func() bool {
		return redis.HasErrorPrefix(raw.Get(context.Background(), "filler:1").Err(), "LOADING")
	})
	return s.Client(t), nil
}

func credentials(user, password string) func(t *testing.T) (redis.UniversalClient, func()) {
	return func(t *testing.T) (redis.UniversalClient, func()) {
		s := redistest.Real(t, redistest.Args("--requirepass", "secret"))
		operator := s.Client(t, func(o *redis.Options) { o.Password = "secret" })
		mend := []any{"CONFIG", "SET", "requirepass", password}
		if user != "" {
			do(t, operator, "ACL", "SETUSER", user, "on", ">"+password, "+ping")
			mend = []any{"ACL", "SETUSER", user, "allcommands", "allkeys", "allchannels"}
		}
		return s.Client(t, func(o *redis.Options) { o.Username, o.Password = user, password }), func() { do(t, operator, mend...) }
	}
}

func lonelyNode(t *testing.T) (redis.UniversalClient, func()) {
	s := redistest.Real(t, redistest.Args("--cluster-enabled", "yes"))
	raw := s.Client(t)
	return s.Client(t), func() { do(t, raw, "CLUSTER", "ADDSLOTSRANGE", 0, 16383) }
}

func played(answer string) func(t *testing.T) (redis.UniversalClient, func()) {
	return func(t *testing.T) (redis.UniversalClient, func()) {
		s := redistest.Embedded(t)
		s.SetError(answer)
		return s.Client(t), func() { s.SetError("") }
	}
}

// wrongNode is not mended by moving the slot there: a single-server client to a
// node of a Cluster is refused for every key.
func wrongNode(t *testing.T) (redis.UniversalClient, func()) {
	cluster := redistest.Cluster(t)
	owner, err := cluster.Owner(context.Background(), redisKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range cluster.Nodes {
		if s != owner {
			return s.Client(t), nil
		}
	}
	t.Fatal("all nodes own the key")
	return nil, nil
}

// crowded has others take all of a server's connections. Once they leave there is room for
// the commands of a Locker, its subscription and its pings: the first to come takes a room.
func crowded(t *testing.T) (redis.UniversalClient, func()) {
	const others = 4
	s := redistest.Real(t, redistest.Args("--maxclients", strconv.Itoa(1+others)))
	raw := s.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	do(t, raw, "PING")
	var conns []net.Conn
	leave := func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	t.Cleanup(leave)
	for range others {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	await.Within(t, patience, "the other clients are counted", func() bool {
		return strings.Contains(raw.Info(context.Background(), "clients").Val(), fmt.Sprintf("connected_clients:%d", 1+others))
	})
	return s.Client(t), leave
}
