package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/golden"
	"github.com/lockmw/kit/internal/test/redistest"
)

func at(server interface{ Addr() string }, user string) string {
	return "redis://" + user + server.Addr()
}

// What doctor says of a server that somebody has to mend, and of the mended one.
func TestDoctor(t *testing.T) {
	server := redistest.Real(t)
	admin := server.Client(t)
	do := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s := &script{t: t}
	do("ACL", "SETUSER", "poor", "on", ">secret", "~lock:*", "&lock:grants:*", "+@all", "-zpopmin", "-hset")
	do("ACL", "SETUSER", "deaf", "on", ">secret", "~lock:*", "&lock:grants:*", "+@all", "-subscribe", "-scan")
	do("ACL", "SETUSER", "elsewhere", "on", ">secret", "~other:*", "&*", "+@all")
	for _, user := range []string{"poor:wrong@", "poor:secret@", "deaf:secret@", "elsewhere:secret@"} {
		s.run("", "doctor", "--redis", at(server, user))
	}
	s.run("", "ls", "--redis", at(server, "poor:wrong@"))
	s.run("", "doctor", "-o", "json", "--redis", at(server, "deaf:secret@"))
	do("CONFIG", "SET", "appendonly", "yes", "maxmemory", "1gb")
	do("SET", "lock:{invoice}:answer", "1700000000000000 1800000000000000 f 1 json \n7")
	s.run("", "doctor", "--redis", at(server, ""))
	do("CONFIG", "SET", "appendonly", "no")
	s.run("", "doctor", "-o", "json", "--redis", at(server, "deaf:secret@"))
	s.run("", "doctor", "-o", "json", "--redis", at(server, ""))
	do("DEL", "lock:{invoice}:answer")
	do("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	s.run("", "doctor", "--redis", at(server, ""))
	do("CONFIG", "SET", "maxmemory-policy", "noeviction", "min-replicas-to-write", "1")
	s.run("", "doctor", "--redis", at(server, ""))
	do("CONFIG", "SET", "min-replicas-to-write", "0", "requirepass", "secret")
	s.run("", "doctor", "--redis", at(server, ""))
	s.run("", "doctor", "--redis", at(server, ":secret@"))
	golden.Check(t, "testdata/doctor.golden", s.String())
}

// Each right that is missing is named.
func TestDoctorNamesEachRight(t *testing.T) {
	server := redistest.Real(t)
	admin := server.Client(t)
	rights := func(end status, names string) {
		for name := range strings.FieldsSeq(names) {
			name, sub, _ := strings.Cut(name, "|")
			without := "-" + name
			want := strings.ToUpper(name)
			if sub != "" {
				without, want = without+"|"+sub, want+" "+strings.ToUpper(sub)
			}
			user := strings.ReplaceAll(name, "|", "")
			if err := admin.Do(t.Context(), "ACL", "SETUSER", user, "on", ">secret", "~lock:*", "&lock:grants:*", "+@all", without).Err(); err != nil {
				t.Fatal(err)
			}
			got := lockctl(t, "", "doctor", "--redis", at(server, user+":secret@"))
			if got.status != end || !strings.Contains(got.out, "may not run "+want+", see ") || strings.Count(got.out, "\n") != 1 {
				t.Errorf("%s: %+v", without, got)
			}
		}
	}
	rights(statusError, "eval evalsha time exists get set del pttl pexpire zadd zrange zrem zpopmin zscore zcard zcount hset hget hdel hgetall publish ping")
	rights(statusNothing, "subscribe pubsub|numsub info scan")
}

func TestDoctorOfAnOldServer(t *testing.T) {
	s := redistest.Embedded(t)
	s.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		switch {
		case cmd == "PEXPIRE" && len(args) > 2:
			c.WriteError("ERR wrong number of arguments for 'pexpire' command")
		case cmd == "INFO":
			c.WriteBulk("# Server\r\nredis_version:6.0.16\r\nredis_mode:standalone\r\n")
		default:
			return false
		}
		return true
	})
	want := call{statusError, "error   Redis 6.0.16 is too old: locks need Redis 7.0 or newer, or Valkey\n", ""}
	if got := lockctl(t, "", "doctor", "--redis", at(s, "")); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A replica lets everybody read.
func TestDoctorOfAReplica(t *testing.T) {
	master := redistest.Real(t)
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Real(t, redistest.Args("--replicaof", host, port))
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up") {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the replica has no master")
		}
	}
	got := lockctl(t, "", "doctor", "--redis", at(replica, ""))
	if got.status != statusError || !strings.HasPrefix(got.out, "error   the server is a replica, which cannot keep locks: use the address of its master") {
		t.Errorf("%+v", got)
	}
}

// A node of a Cluster has a part of the locks only. Nobody shall take it for all of them.
func TestANodeOfAClusterIsNotOneServer(t *testing.T) {
	cluster := redistest.Cluster(t)
	holds(t, cluster.Client(t))
	for _, args := range [][]string{{"doctor"}, {"ls"}, {"show", "order:42"}} {
		for i, node := range cluster.Nodes {
			got := lockctl(t, "", append(args, "--redis", at(node, ""))...)
			if args[0] == "show" && got.status == 0 {
				continue // it has that one
			}
			if got.status != statusError || !strings.Contains(got.out+got.errs, "is a node of a Redis Cluster and has only a part of the keys: use --cluster") {
				t.Errorf("%s of node %d: %+v", args[0], i, got)
			}
		}
	}
	single := redistest.Shared(t)
	if got := lockctl(t, "", "doctor", "--cluster", "--redis", at(single, "")); got.status != statusError || !strings.Contains(got.out, "is no node of a Redis Cluster: leave out --cluster") {
		t.Errorf("a single server: %+v", got)
	}
}

// A proxy passes on what it knows of Redis, and refuses or hangs up on the rest.
type proxy struct {
	target  *redis.Client
	refuses []string
	hangsUp bool
}

func (p proxy) listen(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		switch refused := slices.Contains(p.refuses, cmd); {
		case refused && p.hangsUp:
			c.Close()
			return true
		case refused, cmd == "HELLO", cmd == "CLIENT": // which are about the connection to the proxy
			c.WriteError(fmt.Sprintf("ERR unknown command '%s'", cmd))
			return true
		}
		command := []any{cmd}
		for _, arg := range args {
			command = append(command, arg)
		}
		reply, err := p.target.Do(context.Background(), command...).Result()
		passOn(c, reply, err)
		return true
	})
	return s
}

func passOn(c *server.Peer, reply any, err error) {
	if err != nil && !errors.Is(err, redis.Nil) {
		c.WriteError(err.Error())
		return
	}
	switch v := reply.(type) {
	case nil:
		c.WriteNull()
	case int64:
		c.WriteInt(int(v))
	case []any:
		c.WriteLen(len(v))
		for _, one := range v {
			passOn(c, one, nil)
		}
	default:
		c.WriteBulk(fmt.Sprint(v))
	}
}

func TestDoctorFindsAProxy(t *testing.T) {
	target := redistest.Real(t).Client(t)
	for name, tc := range map[string]struct {
		proxy

		status status
		says   []string
	}{
		"no subscriptions": {proxy{refuses: []string{"SUBSCRIBE", "SCRIPT"}}, statusNothing, []string{
			"advice  SUBSCRIBE does not come through to the server (", "proxy in between, give locks the server's own address"}},
		"no commands without a key": {proxy{refuses: []string{"SUBSCRIBE", "SCRIPT", "INFO", "SCAN"}}, statusNothing, []string{
			"SUBSCRIBE does not come through", "INFO does not come through", "SCAN does not come through"}},
		"no scripts": {proxy{refuses: []string{"SUBSCRIBE", "EVAL", "EVALSHA"}}, statusError, []string{
			"error   the server does not know EVAL, which locks need (is it renamed, or is there a proxy in between?"}},
		"it hangs up on subscriptions": {proxy{refuses: []string{"SUBSCRIBE"}, hangsUp: true}, statusNothing, []string{
			"advice  SUBSCRIBE does not come through to the server ("}},
		"it hangs up on HELLO": {proxy{refuses: []string{"HELLO"}, hangsUp: true}, statusError, []string{
			"(does the server want TLS on that port, or is there a proxy in between?)"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.target = target
			s := tc.listen(t)
			got := lockctl(t, "", "doctor", "--redis", "redis://"+s.Addr().String())
			if got.status != tc.status {
				t.Errorf("status %d, want %d", got.status, tc.status)
			}
			for _, what := range tc.says {
				if !strings.Contains(got.out, what) {
					t.Errorf("got %s\nwant %s", got.out, what)
				}
			}
		})
	}
}

// Behind a balancer are several servers.
func TestDoctorFindsABalancer(t *testing.T) {
	addr := redistest.TurnsBetween(t, redistest.Real(t).Addr(), redistest.Shared(t).Addr())
	got := lockctl(t, "", "doctor", "--redis", "redis://"+addr)
	if got.status != statusError || !strings.Contains(got.out, "several servers answer at this address") {
		t.Errorf("%+v", got)
	}
}
