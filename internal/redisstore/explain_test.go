package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A client that is made for something else than what it leads to: the error says so in
// one line, with what to do.
func TestTheWrongClientSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := redistest.Sentinel(t)
	name, addrs := w.Sentinels()
	for what, c := range map[string]struct {
		client redis.UniversalClient
		says   string
	}{
		"a name that no Sentinel knows": {redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "other", SentinelAddrs: addrs}), "MasterName"},
		"a name that no Sentinel knows, as a Cluster": {
			redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "other", SentinelAddrs: addrs}), "MasterName"},
		"a server that is no Sentinel": {
			redis.NewFailoverClient(&redis.FailoverOptions{MasterName: name, SentinelAddrs: []string{w.Servers()[0].Addr()}}), "unknown command 'sentinel'"},
		"a Sentinel as a server":  {redis.NewClient(&redis.Options{Addr: addrs[0]}), "redis.NewFailoverClient"},
		"a Sentinel as a Cluster": {redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs}), "redis.NewFailoverClient"},
		"a server as a Cluster":   {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{w.Servers()[0].Addr()}}), "redis.NewClient"},
	} {
		t.Run(what, func(t *testing.T) {
			defer c.client.Close()
			p := open(t, c.client, "kit")
			_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "args beginning") {
				t.Errorf("Acquire = %v, want one line that says %q", err, c.says)
			}
		})
	}
}

// A Sentinel that does not know AUTH quotes the password.
func TestSentinelsErrorsHideArguments(t *testing.T) {
	quoting := errors.New("ERR unknown command `AUTH`, with args beginning with: `secret`, ")
	client, n := sentinels(t, nobody(t), nil)
	n.fails.Store(&failure{fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", errors.Join(quoting, errOdd, errOdd))})
	p := open(t, client, "kit")
	_, err := p.Acquire(context.Background(), store.Request{Ref: p.ref(time.Minute)})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.HasSuffix(err.Error(), "unknown command `AUTH`; "+errOdd.Error()) {
		t.Errorf("Acquire = %v", err)
	}
	if !errors.Is(err, errOdd) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

// A master that is not trusted was named by the Sentinels.
func TestAMasterThatIsNotTrustedSaysSo(t *testing.T) {
	front, _ := redistest.TLS(t, redistest.Embedded(t).Addr())
	client, _ := sentinels(t, front, &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12})
	p := open(t, client, "kit")
	_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
	if e := store.AsError(err); !e.Permanent || !strings.Contains(e.Error(), "certificate") || strings.Contains(e.Error(), "no Sentinel") {
		t.Errorf("Acquire = %v, want what TLS says", err)
	}
}

// README's line has what locks need. What tools and options need besides stands elsewhere.
func TestAMissingRightLeadsToTheLineThatHasIt(t *testing.T) {
	for command, see := range map[string]string{"evalsha": seeACL, "scan": seeUser, "info": seeUser, "wait": seeUser} {
		text := "NOPERM User locker has no permissions to run the '" + command + "' command"
		if got := explained(errors.New(text), "NOPERM", text).Error(); !strings.Contains(got, see) {
			t.Errorf("%s: %s; want %q", command, got, see)
		}
	}
}

// Valkey 9.1 may be without its module for Lua.
func TestAServerWithoutLuaSaysSo(t *testing.T) {
	text := "ERR Could not find scripting engine 'lua'"
	if got := explained(errors.New(text), "ERR", text).Error(); !strings.Contains(got, "load its module") {
		t.Errorf("%s; want what to do", got)
	}
}
