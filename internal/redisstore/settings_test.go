package redisstore

import (
	"cmp"
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

// A settingsEar is an ear that also hears of settings.
type settingsEar struct {
	*ear
	changed chan struct{}
}

// SettingsChanged implements store.SettingsListener.
func (e settingsEar) SettingsChanged() { e.changed <- struct{}{} }

// hearSettings has p listen until the test ends, and returns when it hears of settings.
func (p *probe) hearSettings() settingsEar {
	p.Helper()
	e := settingsEar{newEar(), make(chan struct{}, 100)}
	p.listen(e)
	await.Receive(p, "Listening", e.listening)
	await.Receive(p, "the begin of settings", e.changed)
	return e
}

// wantSettings fails the test unless these are all settings.
func (p *probe) wantSettings(want map[string]string) {
	p.Helper()
	texts, clock, err := p.Settings(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	if len(texts) != len(want) {
		p.Errorf("there are %q, want %q", texts, want)
	}
	for name, text := range want {
		if texts[name] != text {
			p.Errorf("%s is %q, want %q", name, texts[name], text)
		}
	}
	if off := time.Since(time.UnixMicro(clock)).Abs(); off > time.Minute {
		p.Errorf("the clock differs by %v", off)
	}
}

func (p *probe) setting(name, text string, want bool) {
	p.Helper()
	if had, done, err := p.Set(p.Context(), name, nil, text); err != nil || !done || (had != "") != want {
		p.Errorf("Set(%q, %q) = %q, %v, %v, want that something was there: %v", name, text, had, done, err, want)
	}
}

// settingsLife sets, replaces and takes away, with one who writes and one who hears of it.
func settingsLife(t *testing.T, writes, reads *probe) {
	t.Helper()
	e := reads.hearSettings()
	for _, step := range []struct {
		name, text string
		existed    bool
		want       map[string]string
	}{
		{"shop/pay", "one", false, map[string]string{"shop/pay": "one"}},
		{"shop/*", "two", false, map[string]string{"shop/pay": "one", "shop/*": "two"}},
		{"shop/pay", "\x00three", true, map[string]string{"shop/pay": "\x00three", "shop/*": "two"}},
		{"shop/*", "", true, map[string]string{"shop/pay": "\x00three"}},
		{"shop/*", "", false, map[string]string{"shop/pay": "\x00three"}},
		{"shop/pay", "", true, nil},
	} {
		writes.setting(step.name, step.text, step.existed)
		await.Receive(t, "a message", e.changed)
		reads.wantSettings(step.want)
	}
}

func TestSettingsAreOneHashThatALockerHearsOf(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p, q := open(t, s.Client(t), "kit"), open(t, s.Client(t), "kit")
	settingsLife(t, p, q)
	p.setting("shop/pay", "one", false)
	if got := s.Client(t).HGetAll(t.Context(), "lockmw:settings:kit").Val(); got["shop/pay"] != "one" {
		t.Errorf("the hash has %q", got)
	}
	other := open(t, s.Client(t), "other")
	other.wantSettings(nil)
}

// Messages about locks and those about settings come over one subscription.
func TestWhoHearsOfSettingsHearsOfGrants(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p, q := open(t, s.Client(t), "kit"), open(t, s.Client(t), "kit")
	e := q.hearSettings()
	held, waits := p.take(), q.ref(time.Minute)
	q.refused(waits, store.Wait)
	p.setting("shop/pay", "one", false)
	p.release(held, false, store.HandedOver)
	if g := await.Receive(t, "the grant", e.grants); g.Ref.Token != waits.Token {
		t.Errorf("heard of a grant to %s, want %s", g.Ref.Token, waits.Token)
	}
	await.Receive(t, "a message about settings", e.changed)
	if n := len(e.listening); n > 0 {
		t.Errorf("Listening was called %d times more: each has all waiters ask again", n)
	}
}

// Who has looked at a setting and changes it does not overwrite what somebody else has set meanwhile. Asking twice is safe: the first reply
// may be lost.
func TestASettingIsChangedOnlyWhereNobodyElseHasChangedIt(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		p := open(t, s.Client(t), redistest.Prefix(t))
		nothing, one, two := "", "one", "two"
		for i, step := range []struct {
			was  *string
			text string
			had  string
			done bool
		}{
			{&one, "two", "", false},
			{&nothing, "one", "", true},
			{&nothing, "one", "one", true}, // again
			{&nothing, "three", "one", false},
			{&two, "", "one", false},
			{&one, "two", "one", true},
			{&one, "three", "two", false},
			{&two, "", "two", true},
			{&two, "", "", true}, // again
			{nil, "four", "", true},
			{nil, "five", "four", true},
		} {
			had, done, err := p.Set(t.Context(), "shop/pay", step.was, step.text)
			if had != step.had || done != step.done || err != nil {
				t.Errorf("step %d: Set = %q, %v, %v, want %q, %v", i+1, had, done, err, step.had, step.done)
			}
		}
		p.wantSettings(map[string]string{"shop/pay": "five"})
	})
}

func TestSettingsInACluster(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	settingsLife(t, open(t, shards.Client(t), "kit"), open(t, shards.Client(t), "kit"))
}

func TestSettingsOfAnotherTypeAreAnError(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p := open(t, s.Client(t), "kit")
	do(t, s.Client(t), "SET", "lockmw:settings:kit", "x")
	_, _, err := p.Settings(t.Context())
	wantVerdict(t, "Settings", err, lasting, "WRONGTYPE")
	_, _, err = p.Set(t.Context(), "shop/pay", nil, "one")
	wantVerdict(t, "Set", err, verdict{ambiguous: true, permanent: true}, "WRONGTYPE")
}

// What a service needs besides the README's line to read settings, and what an operator needs to write them, as docs/redis.md
// prints it.
const (
	readsSettingsACL  = " %R~lockmw:settings:kit"
	writesSettingsACL = "resetkeys ~lockmw:settings:kit resetchannels &kit:grants:settings -@all +eval +hget +hset +hdel +hgetall +time +publish"
)

func TestTheDocsHaveTheACLLinesOfSettings(t *testing.T) {
	for user, want := range map[string]string{"locks": readsSettingsACL, "operators": " on >password " + writesSettingsACL} {
		got := strings.Join(redistest.ACLRules(t, "../../docs/redis.md", user), " ")
		if want = strings.ReplaceAll(strings.TrimSpace(want), "kit", "lock"); got != want {
			t.Errorf("a shell makes of the line of %s\n%s\nwant\n%s", user, got, want)
		}
	}
}

// A service reads settings and does not write them, and its user does all that locks need.
func TestAServiceReadsSettingsAndDoesNotWriteThem(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, q := u.may(minimalACL + readsSettingsACL)
	if err := u.life(p, q); err != nil {
		t.Fatal(err)
	}
	admin := open(t, u.server.Client(t), "kit")
	e := q.hearSettings()
	admin.setting("shop/pay", "one", false)
	await.Receive(t, "a message", e.changed)
	q.wantSettings(map[string]string{"shop/pay": "one"})
	for _, text := range []string{"two", ""} {
		_, _, err := q.Set(t.Context(), "shop/pay", nil, text)
		wantVerdict(t, "Set", err, lasting, "docs/redis.md")
	}
	q.wantSettings(map[string]string{"shop/pay": "one"})
}

// Without the right to read settings there are none, and locks are as they were.
func TestWithoutTheRightToReadSettingsThereAreLocks(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p, q := u.may(minimalACL)
	if err := u.life(p, q); err != nil {
		t.Fatal(err)
	}
	q.hearSettings()
	_, _, err := q.Settings(t.Context())
	wantVerdict(t, "Settings", err, lasting, "docs/redis.md")
}

// operates does what lockctl policy does.
func operates(p *probe) error {
	_, _, err1 := p.Set(p.Context(), "shop/pay", nil, "one")
	_, _, err2 := p.Settings(p.Context())
	_, _, err3 := p.Set(p.Context(), "shop/pay", nil, "")
	return cmp.Or(err1, err2, err3)
}

// In a Cluster an operator needs two rights more, of which one is for a slot that moves.
func TestTheACLOfOperatorsInACluster(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	operator := func(rules string) *probe {
		t.Helper()
		for _, node := range shards.Nodes {
			set := []any{"ACL", "SETUSER", "ada", "reset", "on", ">secret"}
			for rule := range strings.FieldsSeq(rules) {
				set = append(set, rule)
			}
			do(t, node.Client(t), set...)
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{shards.Nodes[0].Addr()}, Username: "ada", Password: "secret"})
		t.Cleanup(func() { _ = client.Close() })
		return open(t, client, "kit")
	}
	if err := operates(operator(writesSettingsACL + clusterACL)); err != nil {
		t.Fatal(err)
	}
	if err := operates(operator(writesSettingsACL + " +asking")); err == nil {
		t.Error("without cluster|slots settings are set and read")
	}
	const hash = "lockmw:settings:kit"
	if err := operates(operator(writesSettingsACL + " +cluster|slots")); err != nil {
		t.Errorf("without asking, while the slot stays where it is: %v", err)
	}
	owner, err := shards.Owner(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	err = shards.Move(t.Context(), hash, shards.Other(owner), func() { // there is no hash where the slot comes from
		if err := operates(operator(writesSettingsACL + clusterACL)); err != nil {
			t.Errorf("while the slot moves: %v", err)
		}
		if err := operates(operator(writesSettingsACL + " +cluster|slots")); err == nil {
			t.Error("without asking settings are set and read while the slot moves")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each right of an operator is needed: without it what it is for fails, but without publish services only see a setting later.
func TestTheACLOfOperatorsIsEnoughAndMinimal(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	service := open(t, u.server.Client(t), "kit")
	e := service.hearSettings()
	operator := func(rules string) *probe {
		t.Helper()
		set := []any{"ACL", "SETUSER", "ada", "reset", "on", ">secret"}
		for rule := range strings.FieldsSeq(rules) {
			set = append(set, rule)
		}
		do(t, u.raw, set...)
		client := redis.NewClient(&redis.Options{Addr: u.server.Addr(), Username: "ada", Password: "secret"})
		t.Cleanup(func() { _ = client.Close() })
		return open(t, client, "kit")
	}
	if err := operates(operator(writesSettingsACL)); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "a message", e.changed)
	await.Receive(t, "a message", e.changed)
	rules := strings.Fields(writesSettingsACL)
	without := func(i int) error {
		return operates(operator(strings.Join(slices.Delete(slices.Clone(rules), i, i+1), " ")))
	}
	admin := open(t, u.server.Client(t), "kit")
	for i, rule := range rules {
		if rule != "+publish" && !strings.HasPrefix(rule, "&") {
			continue
		}
		if err := without(i); err != nil {
			t.Errorf("without %s: %v", rule, err)
		}
		admin.setting("shop/*", "", false)
		await.Receive(t, "a message", e.changed) // the administrator's: messages come in their order
		if n := len(e.changed); n > 0 {
			t.Errorf("without %s there are %d messages more", rule, n)
		}
	}
	for i, rule := range rules {
		if strings.HasPrefix(rule, "~") || rule[0] == '+' && rule != "+publish" {
			wantVerdict(t, "without "+rule, without(i), lasting, "a right that settings need")
		}
	}
}
