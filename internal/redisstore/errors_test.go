package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A verdict is what a question's error says.
type verdict struct{ ambiguous, permanent, stale bool }

var (
	lasting   = verdict{permanent: true}                  // asking again will not help
	passing   = verdict{}                                 // it will, and nothing was done
	midway    = verdict{ambiguous: true}                  // it will, but the script had begun
	failed    = verdict{ambiguous: true, permanent: true} // it will not, and the script had begun
	brokenOff = verdict{ambiguous: true, stale: true}     // the server may have carried it out
)

// questions are one of each kind, about a token that the store may know.
func (p *probe) questions(r store.Ref) map[string]func() error {
	return map[string]func() error{
		"Acquire": func() error {
			_, err := p.Acquire(context.Background(), store.Request{Ref: r, Join: store.Wait})
			return err
		},
		"Release": func() error {
			_, _, err := p.Release(context.Background(), store.Give{Ref: r})
			return err
		},
		"Release to the next": func() error {
			_, _, err := p.releaseTo(context.Background(), r, p.ref(time.Minute), store.Place{})
			return err
		},
		"Renew": func() error {
			batch := []store.Renewal{{Ref: r}}
			p.Renew(context.Background(), batch)
			return batch[0].Err
		},
	}
}

// wantVerdict wants err to be of this kind, with a text that holds said.
func wantVerdict(t *testing.T, what string, err error, want verdict, said string) {
	t.Helper()
	e := (*store.Error)(nil)
	if !errors.As(err, &e) {
		t.Errorf("%s = %v, want a *store.Error", what, err)
		return
	}
	if got := (verdict{e.Ambiguous, e.Permanent, e.Stale}); got != want || e.Pending {
		t.Errorf("%s = %v: %+v, want %+v", what, err, *e, want)
	}
	if !strings.Contains(err.Error(), said) {
		t.Errorf("%s = %q, want it to say %q", what, err, said)
	}
}

// Every refusal, as Redis 7.0 and the libraries word it.
func TestRefusalsAreUnderstood(t *testing.T) {
	s := redistest.Embedded(t)
	p := open(t, s.Client(t), "kit")
	p.renew(p.take(), true) // connects
	for text, want := range map[string]verdict{
		"LOADING Redis is loading the dataset in memory":                                                     passing,
		"READONLY You can't write against a read only replica.":                                              passing,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                   passing,
		"CLUSTERDOWN The cluster is down":                                                                    passing,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                            passing,
		"NOREPLICAS Not enough good replicas to write.":                                                      passing,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist":            passing,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":             passing,
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)":       passing,
		"ERR max number of clients reached":                                                                  passing,
		"OOM command not allowed when used memory > 'maxmemory'.":                                            lasting,
		"OOM command not allowed when used memory > 'maxmemory'. script: 0a1b, on @user_script:1.":           lasting,
		"READONLY You can't write against a read only replica. script: 0a1b, on @user_script:1.":             passing,
		"NOREPLICAS Not enough good replicas to write. script: on @user_script:1.":                           passing,
		"MISCONF Valkey is configured to save RDB snapshots, but …. script: on @user_script:1.":              passing,
		"TRYAGAIN Multiple keys request during rehashing of slot script: 0a1b, on @user_script:1.":           midway,
		"ERR Script attempted to access a non local key in a cluster node script: 0a1b, on @user_script:1.":  midway,
		"ERR Attempted to access a non local key in a cluster node script: on @user_script:1.":               midway,
		"ERR Can not execute a command 'get' while the cluster is down script: on @user_script:1.":           midway,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                  lasting,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 0a1b, on @user_script:1.": failed,
		"ERR Error compiling script (new function): :30: WRONGTYPE Operation against a key holding …":        lasting,
		"NOAUTH Authentication required.":                                                                    lasting,
		"WRONGPASS invalid username-password pair or user is disabled.":                                      lasting,
		"NOPERM this user has no permissions to run the 'evalsha' command":                                   lasting,
		"NOPERM this user has no permissions to access one of the keys used as arguments":                    lasting,
		"ERR The user executing the script can't run this command or subcommand script: 0a1b":                failed,
		"CROSSSLOT Keys in request don't hash to the same slot":                                              lasting,
		"NOPROTO unsupported protocol version":                                                               lasting,
		"DENIED Redis is running in protected mode because protected mode is enabled and no password …":      lasting,
		"ERR unknown command 'EVALSHA', with args beginning with: '0a1b'":                                    lasting,
		"ERR value is not an integer or out of range":                                                        lasting,
	} {
		s.SetError(text)
		for what, ask := range p.questions(p.ref(time.Minute)) {
			says, _, _ := strings.Cut(text, ", with args") // a refusal's quotations are nobody's business
			wantVerdict(t, what+" at "+text, ask(), want, says)
		}
		s.SetError("")
	}
}

func TestADeadServerWasNotAsked(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p := open(t, s.Client(t), "kit")
	s.Kill()
	for what, ask := range p.questions(p.ref(time.Minute)) {
		wantVerdict(t, what, ask(), passing, "refused")
	}
	wantVerdict(t, "Listen", p.listenBriefly(), passing, "refused")
}

func TestAClosedStoreIsOver(t *testing.T) {
	s := redistest.Embedded(t)
	closed, err := New(s.Client(t), "kit", "test")
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{t, closed}
	held := p.take()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for what, ask := range p.questions(held) {
		wantVerdict(t, what, ask(), lasting, "closed")
	}
	wantVerdict(t, "Listen", p.listenBriefly(), lasting, "closed")
}

// A connection that ends while the server works on a question.
func TestABrokenConnectionIsStale(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Shared(t))
	for what, ask := range p.questions(p.ref(time.Minute)) {
		if err := ask(); err != nil { // connects
			t.Fatalf("%s: %v", what, err)
		}
		proxy.Delay(faultproxy.ToClient, 10*patience)
		before := proxy.Commands()["EVALSHA"]
		answers := make(chan error, 1)
		go func() { answers <- ask() }()
		await.Until(t, "the question is under way", func() bool { return proxy.Commands()["EVALSHA"] > before })
		proxy.Cut()
		proxy.Delay(faultproxy.ToClient, 0)
		wantVerdict(t, what, await.Receive(t, what, answers), brokenOff, "")
	}
}

func TestEveryErrorHasAText(t *testing.T) {
	for _, err := range []error{redis.Nil, redis.ErrClosed, redis.ErrPoolTimeout, errReply, context.Canceled, fmt.Errorf("odd")} {
		e := classify(err)
		if e.Error() == "" || !errors.Is(e, err) {
			t.Errorf("classify(%v) = %v, want its text and itself", err, e)
		}
	}
}
