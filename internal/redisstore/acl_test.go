package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// minimalACL is what a user of Redis needs for locks below the namespace
// "kit", as the README prints it.
const minimalACL = "resetkeys ~kit:* resetchannels &kit:grants:* -@all" +
	" +evalsha +eval +time" +
	" +get +set +del +exists +pttl +pexpire" +
	" +zadd +zrange +zrem +zpopmin +zscore +zcard +zcount" +
	" +hset +hget +hdel +hgetall" +
	" +publish +pubsub|numsub +subscribe +ping +client|setname"

// Errors tell whoever lacks a right to look at the ACL line in the README, so it stands there.
func TestTheReadmeHasTheACLLine(t *testing.T) {
	got := strings.Join(redistest.ACLRules(t, "../../README.md", "locks"), " ")
	if want := "on >password " + strings.ReplaceAll(minimalACL, "kit", "lock"); got != want {
		t.Errorf("a shell makes of README.md's line\n%s\nwant\n%s", got, want)
	}
}

// A user of a server is given permissions by tests.
type user struct {
	*testing.T
	server *redistest.Server
	raw    *redis.Client
}

func newUser(t *testing.T) *user {
	t.Helper()
	s := redistest.Real(t)
	return &user{t, s, s.Client(t)}
}

// may gives the user these permissions and no others, and returns two Stores
// of that user.
func (u *user) may(rules string) (*probe, *probe) {
	u.Helper()
	set := []any{"ACL", "SETUSER", "locker", "reset", "on", ">secret"}
	for rule := range strings.FieldsSeq(rules) {
		set = append(set, rule)
	}
	do(u.T, u.raw, set...)
	do(u.T, u.raw, "SCRIPT", "FLUSH")
	// Not redistest's options: a user's client also sends what those leave out.
	client := redis.NewClient(&redis.Options{Addr: u.server.Addr(), Username: "locker", Password: "secret", ClientName: "shop"})
	u.Cleanup(func() { _ = client.Close() })
	p, q := open(u.T, client, "kit"), open(u.T, client, "kit")
	return p, q
}

// life puts p and q through all that a lock can go through and returns the
// first error. What is answered in few commands comes with a queue too.
func (u *user) life(p, q *probe) error {
	ctx := u.Context()
	e := newEar()
	stop, ended := p.listen(e)
	defer stop()
	select {
	case <-e.listening:
	case err := <-ended:
		return err
	}
	var failed error
	ask := func(s *probe, r store.Ref, join store.Join, granted bool) {
		if failed != nil {
			return
		}
		a, err := s.Acquire(ctx, store.Request{Ref: r, Join: join})
		if failed = err; err == nil && a.Granted != granted {
			u.Errorf("Acquire(%s) granted = %v, want %v", joins[join], a.Granted, granted)
		}
	}
	release := func(s *probe, r store.Ref, leave bool, want store.Released) {
		if failed != nil {
			return
		}
		got, err := s.giveBack(ctx, r, leave)
		if failed = err; err == nil && got != want {
			u.Errorf("Release = %v, want %v", got, want)
		}
	}
	renew := func(s *probe, r store.Ref) {
		if failed != nil {
			return
		}
		batch := []store.Renewal{{Ref: r}}
		s.Renew(ctx, batch)
		failed = batch[0].Err
	}

	pass := func(s *probe, r, next store.Ref, granted bool) {
		if failed != nil {
			return
		}
		did, a, err := s.releaseTo(ctx, r, next, store.Place{Behind: 2})
		if failed = err; err == nil && (did != store.HandedOver || a.Granted != granted) {
			u.Errorf("Release to the next = %v, granted %v, want %v, granted %v", did, a.Granted, store.HandedOver, granted)
		}
	}
	inspect := func(s *probe, waiting int) {
		if failed != nil {
			return
		}
		info, err := s.Inspect(ctx, "k")
		if failed = err; err == nil && info.Waiting != waiting {
			u.Errorf("Inspect = %+v, want %d who wait", info, waiting)
		}
	}

	// Taken, asked for again, renewed, handed over to one who hears, and to
	// one who polls.
	held, hears, polls, gaveUp := q.ref(time.Minute), p.ref(time.Minute), q.ref(time.Minute), q.ref(time.Minute)
	ask(q, held, store.Try, true)
	ask(q, held, store.Try, true)
	renew(q, held)
	ask(p, hears, store.Wait, false)
	ask(q, gaveUp, store.Wait, false)
	ask(q, polls, store.Wait, false)
	ask(q, gaveUp, store.Last, false)
	release(q, held, false, store.HandedOver)
	if failed == nil {
		await.Receive(u, "the grant", e.grants)
	}
	renew(p, hears)
	release(p, hears, true, store.HandedOver)
	ask(q, polls, store.Wait, true)
	release(q, polls, true, store.Freed)

	// Passed on, at once and behind another.
	held, passed, last := q.ref(time.Minute), q.ref(time.Minute), q.ref(time.Minute)
	ask(q, held, store.Try, true)
	pass(q, held, passed, true)
	ask(p, hears, store.Wait, false)
	pass(q, passed, last, false)
	inspect(p, 3) // one, and two behind it
	if failed == nil {
		await.Receive(u, "the grant", e.grants)
	}
	release(p, hears, true, store.HandedOver)
	ask(q, last, store.Wait, true)
	release(q, last, true, store.Freed)

	// The rarer ways: a locker that is not heard, one that stopped asking, a
	// clock behind the last fence.
	stop()
	channel := p.channels + p.locker
	await.Until(u, "the server knows that nobody listens", func() bool {
		return u.raw.PubSubNumSub(ctx, channel).Val()[channel] == 0
	})
	keys := p.keys("k")
	lock, queue, alive, fence := keys[0], keys[1], keys[2], keys[3]
	again, deaf := q.ref(time.Minute), p.ref(time.Minute)
	ask(q, again, store.Try, true)
	p.subscribed.Store(true)
	ask(p, deaf, store.Wait, false)
	release(q, again, false, store.Freed)
	if failed == nil {
		u.raw.HSet(ctx, alive, "dead", "1v") // since 1970
		u.raw.ZAdd(ctx, queue, redis.Z{Score: 1, Member: "dead.token:60000"})
		u.raw.Set(ctx, fence, time.Now().Add(time.Hour).UnixMicro(), time.Minute)
	}
	ask(q, again, store.Wait, true)
	release(q, again, true, store.Freed)
	u.raw.Del(ctx, lock, queue, alive, fence)

	// Several hold: renewed, asked for again, given back early and late.
	reads, beside, writes := p.ref(time.Minute), q.ref(time.Minute), q.ref(time.Minute)
	reads.Kind.Shared, beside.Kind.Shared = true, true
	ask(p, reads, store.Try, true)
	ask(q, beside, store.Try, true)
	ask(p, reads, store.Try, true)
	renew(p, reads)
	ask(q, writes, store.Wait, false)
	release(p, reads, false, store.Freed)
	if failed == nil {
		_, _, failed = q.Release(ctx, store.Give{Ref: beside, Stay: time.Minute})
	}
	release(q, writes, true, store.NotHeld)
	release(q, beside, false, store.Freed)
	u.raw.Del(ctx, keys[:]...)
	return failed
}

func TestTheMinimalACLIsEnough(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, q := u.may(minimalACL)
	for range 2 { // the second time the server knows the scripts
		if err := u.life(p, q); err != nil {
			t.Fatal(err)
		}
	}
}

// Without any one of its permissions the first lock is refused already, and the error
// says what is missing: a configuration to be mended, not an outage to be sat out.
func TestTheMinimalACLIsMinimal(t *testing.T) {
	t.Parallel()
	rules := strings.Fields(minimalACL)
	u := newUser(t)
	for i, rule := range rules {
		if strings.HasPrefix(rule, "reset") || rule == "-@all" {
			continue
		}
		if rule == "+ping" || rule == "+pubsub|numsub" || rule == "+subscribe" { // see the tests below
			continue
		}
		p, _ := u.may(strings.Join(slices.Delete(slices.Clone(rules), i, i+1), " "))
		_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
		e := store.AsError(err)
		if err == nil || !e.Permanent || e.Ambiguous || e.Evidence != store.Answered {
			t.Errorf("without %s: %v: %+v, want a permanent refusal", rule, err, *e)
			continue
		}
		names, isCommand := strings.CutPrefix(rule, "+")
		if isCommand && !strings.Contains(strings.ToLower(err.Error()), names) || !strings.Contains(err.Error(), "README") {
			t.Errorf("without %s: %q, want it to name that, and the README", rule, err)
		}
	}
}

// A right that is taken away later is named as well, by the line of the script that
// Redis tells, or by Redis itself.
func TestAMissingRightIsNamedLater(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for rule := range strings.FieldsSeq(minimalACL) {
		names, isCommand := strings.CutPrefix(rule, "+")
		if !isCommand || slices.Contains([]string{"ping", "pubsub|numsub", "subscribe", "client|setname"}, names) {
			continue
		}
		p, q := u.may(minimalACL)
		for _, s := range []*probe{p, q} { // what they have found is that all is well
			s.release(s.take(), false, store.Freed)
		}
		do(t, u.raw, "ACL", "SETUSER", "locker", "-"+names)
		err := u.life(p, q)
		if err == nil {
			t.Errorf("without %s nothing fails", rule)
		} else if e := store.AsError(err); !e.Permanent || !strings.Contains(strings.ToLower(err.Error()), names) || !strings.Contains(err.Error(), "README") {
			t.Errorf("without %s: %v: %+v, want a permanent error that names it, and the README", rule, err, *e)
		}
		u.raw.FlushAll(t.Context())
	}
}

// Who may not ask who listens gives the lock to whoever asked within the last seconds.
func TestLocksWorkWithoutAskingWhoListens(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, q := u.may(strings.Replace(minimalACL, " +pubsub|numsub", "", 1))
	e := q.hear()
	held, waits := p.take(), q.ref(time.Minute)
	q.refused(waits, store.Wait)
	p.release(held, false, store.HandedOver)
	await.Receive(t, "the grant", e.grants)
	q.release(waits, true, store.Freed)
}

// Without PING the subscription's pulse stops and Listen ends again and again.
func TestListenNeedsPing(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, _ := u.may(strings.Replace(minimalACL, " +ping", "", 1))
	e := newEar()
	_, ended := p.listen(e)
	await.Receive(t, "Listening", e.listening)
	if err := store.AsError(await.Receive(t, "the end of Listen", ended)); !err.Permanent {
		t.Errorf("Listen = %+v, want a permanent error", err)
	}
}

// Where subscribing is not allowed, locks work by polling.
func TestLocksWorkWithoutChannels(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, q := u.may(strings.Replace(minimalACL, " +subscribe", "", 1))
	wantVerdict(t, "Listen", p.listenBriefly(), lasting, "NOPERM")
	held, waits := p.take(), q.ref(time.Minute)
	q.refused(waits, store.Wait)
	p.release(held, false, store.HandedOver)
	q.get(waits, store.Wait)
	q.release(waits, false, store.Freed)
}

func TestForeignKeysAreForbidden(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, _ := u.may(minimalACL)
	p.ns, p.channels = "other", "other:grants:"
	for what, ask := range p.questions(p.ref(time.Minute)) {
		wantVerdict(t, what, ask(), lasting, "NOPERM")
	}
	wantVerdict(t, "Listen", p.listenBriefly(), lasting, "NOPERM")
}

// A permission taken away while a lock is held.
func TestARevokedPermissionIsAMistake(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, _ := u.may(minimalACL)
	held := p.take()
	do(t, u.raw, "ACL", "SETUSER", "locker", "-evalsha", "-eval")
	for what, ask := range p.questions(held) {
		wantVerdict(t, what, ask(), lasting, "NOPERM")
	}
	do(t, u.raw, "ACL", "SETUSER", "locker", "+evalsha", "+eval")
	p.release(held, false, store.Freed)
}

// clusterACL is what a user needs in a Cluster besides, as docs/redis.md says.
const clusterACL = " +cluster|slots +asking"

// A lock on each of the masters: each of them tells the one subscription of a grant.
func TestAUserOfAClusterNeedsALittleMore(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	for _, node := range shards.Nodes {
		set := []any{"ACL", "SETUSER", "locker", "reset", "on", ">secret"}
		for rule := range strings.FieldsSeq(minimalACL + clusterACL) {
			set = append(set, rule)
		}
		do(t, node.Client(t), set...)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{shards.Nodes[0].Addr()}, Username: "locker", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	p, q := open(t, client, "kit"), open(t, client, "kit")
	e := q.hear()
	reached := make(map[*redistest.Server]bool)
	for i := 0; i < 1000 && len(reached) < len(shards.Nodes); i++ {
		held, waits := p.ref(time.Minute), q.ref(time.Minute)
		held.Key, waits.Key = fmt.Sprint("k", i), fmt.Sprint("k", i)
		owner, err := shards.Owner(t.Context(), p.keys(held.Key)[0])
		if err != nil {
			t.Fatal(err)
		}
		if reached[owner] {
			continue
		}
		reached[owner] = true
		p.get(held, store.Try)
		q.refused(waits, store.Wait)
		p.renew(held, true)
		p.release(held, false, store.HandedOver)
		if g := await.Receive(t, "the grant", e.grants); g.Ref.Token != waits.Token {
			t.Errorf("heard of a grant to %s, want %s", g.Ref.Token, waits.Token)
		}
		q.release(waits, true, store.Freed)
	}
	if len(reached) < len(shards.Nodes) {
		t.Errorf("%d of %d nodes had a lock", len(reached), len(shards.Nodes))
	}
	for _, node := range shards.Nodes {
		if stats := node.Client(t).Info(t.Context(), "commandstats").Val(); strings.Contains(stats, "cmdstat_command:") {
			t.Errorf("%s was asked for COMMAND, which the user may not run: go-redis logs each refusal", node.Addr())
		}
	}
}
