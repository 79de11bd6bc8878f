package redisstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// answers has n answers kept, of 1 KiB each.
func answers(t *testing.T, client redis.UniversalClient, ns string, n int) {
	t.Helper()
	text := "1700000000000000 1800000000000000 f 1 json \n"
	for i := range n {
		if err := client.Set(t.Context(), fmt.Sprintf("%s:{a%d}:answer", ns, i), text+strings.Repeat("x", 1024-len(text)), time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// wantHealth checks what AnswersHealth says: line by line, what each has in it.
func (p *probe) wantHealth(what string, wantFacts, wantAdvice []string) {
	p.Helper()
	facts, advice := p.AnswersHealth(p.Context())
	var told []string
	for _, one := range advice {
		told = append(told, one.Error())
	}
	for _, list := range []struct{ got, want []string }{{facts, wantFacts}, {told, wantAdvice}} {
		same := len(list.got) == len(list.want)
		for i := 0; same && i < len(list.got); i++ {
			same = strings.Contains(list.got[i], list.want[i])
		}
		if !same {
			p.Errorf("%s: told %q, want %q", what, list.got, list.want)
		}
	}
}

const (
	aLastSecond = "but for those of its last second with appendfsync everysec"
	noBound     = "nothing bounds the server's memory (maxmemory 0)"
	forgetsAll  = "a restart of the server forgets all answers, and the work of their keys may be done once more: set appendonly yes (there are neither"
)

// What a server is told of that keeps answers. One that has only locks needs none of it.
func TestAnswersHealth(t *testing.T) {
	s := redistest.Real(t)
	client := s.Client(t)
	p := open(t, client, "kit")
	p.take()
	do(t, client, "SET", "kit:{w}:answer", intent)
	do(t, client, "SET", "other:{a}:answer", "1 1 f x")
	do(t, client, "SET", "kit:{text}:answer", "written by hand")
	p.wantHealth("without answers", nil, nil)
	answers(t, client, "kit", 3)
	kept := "answers of Do and Idempotent that are kept here: 3, of 3.0 KiB in all"
	p.wantHealth("without persistence", []string{kept}, []string{forgetsAll, noBound})
	do(t, client, "CONFIG", "SET", "save", "3600 1", "maxmemory", "1gb")
	p.wantHealth("with snapshots", []string{kept}, []string{"a crash of the server forgets the answers since its last snapshot, and the work of their keys may be done once more: set appendonly yes (there is no AOF; save is 3600 1)"})
	do(t, client, "CONFIG", "SET", "save", "", "appendonly", "yes")
	p.wantHealth("with an append-only file", []string{kept, aLastSecond}, nil)
	used := infoField(client.Info(t.Context(), "memory").Val(), "used_memory")
	do(t, client, "CONFIG", "SET", "maxmemory", used)
	p.wantHealth("without room", []string{kept, aLastSecond}, []string{"the memory of the server is more than half full (used_memory "})
}

// A user who may do less is told what cannot be told.
func TestAnswersHealthOfAUserWhoMaySeeLess(t *testing.T) {
	u := newUser(t)
	p, _ := u.may(minimalACL + " +scan +info")
	answers(t, u.raw, "kit", 2)
	kept := "kept here: 2, of 2.0 KiB in all"
	p.wantHealth("without CONFIG", []string{kept}, []string{"may forget answers, and the work of their keys may be done once more: set appendonly yes (there is no AOF, and whether there are snapshots cannot be told", noBound})
	p, _ = u.may(minimalACL + " +scan")
	p.wantHealth("without INFO", []string{kept}, []string{"cannot tell whether answers survive a restart of the server, and how full its memory is (INFO: "})
	p, _ = u.may(minimalACL + " +info")
	p.wantHealth("without SCAN", nil, nil) // Health says so
}

// Something in between, or a server of another kind, may tell less.
func TestAnswersHealthWhereLessIsTold(t *testing.T) {
	m := redistest.Embedded(t)
	client := m.Client(t)
	p := open(t, client, "kit")
	p.take()
	answers(t, client, "kit", 2)
	untold := "cannot tell whether answers survive a restart of the server, and how full its memory is (INFO: it does not say)"
	p.wantHealth("INFO says nothing", []string{"kept here: 2, of"}, []string{untold})
	var scans atomic.Int32
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "SCAN" {
			return false
		}
		if scans.Add(1) == 2 {
			c.Close()
			return true
		}
		c.WriteLen(2)
		c.WriteBulk("1")
		c.WriteStrings([]string{"kit:{a1}:answer"})
		return true
	})
	p.wantHealth("SCAN breaks off", []string{"kept here: at least 1, of 1.0 KiB in all"}, []string{untold})
	scans.Store(1)
	p.wantHealth("SCAN breaks off at once", nil, []string{"cannot tell whether answers are kept here: "})
}

// A search without an end, as through a server with very many keys, ends by its time.
func TestAnswersHealthLooksForAWhile(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	m := redistest.Embedded(t)
	p := open(t, m.Client(t), "kit")
	p.take()
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "SCAN" {
			return false
		}
		c.WriteLen(2)
		c.WriteBulk("1")
		c.WriteLen(0)
		return true
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.wantHealth("without an end", nil, []string{"cannot tell whether answers are kept here: "})
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it looks for ever")
	}
}

// The nodes of a Cluster are told of once where they are alike.
func TestAnswersHealthOfACluster(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	client := shards.Client(t)
	p := open(t, client, "kit")
	answers(t, client, "kit", 30)
	kept := "kept here: 30, of 30.0 KiB in all"
	p.wantHealth("alike", []string{kept}, []string{forgetsAll, noBound})
	nodes := slices.SortedFunc(slices.Values(shards.Nodes), func(a, b *redistest.Server) int { return cmp.Compare(a.Addr(), b.Addr()) }) // as they are told of
	for i, node := range nodes {
		do(t, node.Client(t), "CONFIG", "SET", "appendonly", "yes")
		if i > 0 {
			do(t, node.Client(t), "CONFIG", "SET", "maxmemory", "1gb")
		}
	}
	p.wantHealth("one of them without a bound", []string{kept, aLastSecond}, []string{noBound})
	one := nodes[1].Client(t)
	do(t, one, "CONFIG", "SET", "maxmemory", infoField(one.Info(t.Context(), "memory").Val(), "used_memory"))
	p.wantHealth("one of them full", []string{kept, aLastSecond}, []string{noBound, "the memory of " + nodes[1].Addr() + " is more than half full"})
}

func TestBytesAreWrittenForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 18 << 30: "18.0 GiB", 5 << 50: "5120.0 TiB"} {
		if got := inBytes(n); got != want {
			t.Errorf("inBytes(%d) = %q, want %q", n, got, want)
		}
	}
}
