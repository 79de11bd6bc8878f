package storetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// foreign is about what is not one token's: other locks, other stores, other
// programs with their data, and callers who have left.
var foreign = []test{
	{"LocksAreIndependent", locksAreIndependent},
	{"OddNamesAreNames", oddNamesAreNames},
	{"TokensAreNeverTheSame", tokensAreNeverTheSame},
	{"AForeignHolderExcludesUs", aForeignHolderExcludesUs},
	{"WeExcludeAForeignProgram", weExcludeAForeignProgram},
	{"OtherDataAreLeftAlone", otherDataAreLeftAlone},
	{"AnEndedContextAsksNothing", anEndedContextAsksNothing},
	{"ClosingAStoreLeavesOthersOpen", closingAStoreLeavesOthersOpen},
}

func locksAreIndependent(w *world) {
	p := w.open()
	a, b := p.ref(long), p.ref(long)
	a.Key, b.Key = "a", "a:fence" // as if it were a's side key
	p.mustGet(a, store.Try)
	p.mustGet(b, store.Try)
	p.release(a, false, store.Freed)
	if !p.renew(b) {
		w.Error("the release of one lock took another one")
	}
	p.release(b, false, store.Freed)
	w.mustBeEmpty("the releases")
}

// oddNames holds what a name may hold: no braces and no control characters.
var oddNames = []string{
	"a", " ", "  two  spaces ", "a:b::c:", ":", "kit:grants:x", "a b:c d", "Zürich/Straße/日本語/🔒", "%7B%7D", "*?[a-z]",
	`"quoted" 'too' \ back`, "\xff\xfe not UTF-8", "1", "-1", "a:queue", strings.Repeat("n", 512),
}

func oddNamesAreNames(w *world) {
	p, other := w.open(), w.open()
	refs := make([]store.Ref, len(oddNames))
	for i, name := range oddNames {
		refs[i] = store.Ref{Key: name, Token: p.NewToken(""), TTL: long}
		p.mustGet(refs[i], store.Try)
	}
	for i, name := range oddNames {
		r := other.ref(long)
		r.Key = name
		other.mustNotGet(r, store.Try)
		if !p.renew(refs[i]) {
			w.Errorf("Renew(%q) = false, want true", name)
		}
	}
	for _, r := range refs {
		p.release(r, false, store.Freed)
	}
	w.mustBeEmpty("the releases")
}

func tokensAreNeverTheSame(w *world) {
	seen := make(map[string]bool)
	for _, p := range []*process{w.open(), w.open()} {
		for range 10_000 {
			token := p.NewToken("")
			if seen[token] {
				w.Fatalf("the token %q was there before", token)
			}
			if len(token) < 22 { // 122 bits in base64
				w.Fatalf("the token %q is too short for 122 random bits", token)
			}
			seen[token] = true
		}
	}
}

func aForeignHolderExcludesUs(w *world) {
	p := w.open()
	w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
		return node.SetNX(ctx, key, "theirs", long).Err()
	})
	for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
		r := p.ref(long)
		a := p.mustNotGet(r, join)
		if a.Left <= long-timeout || a.Left > long {
			w.Errorf("Left = %v, want nearly %v", a.Left, long)
		}
		if a.Siblings != "" {
			w.Errorf("Siblings = %q of a foreign holder, want none", a.Siblings)
		}
		p.release(r, true, store.NotHeld)
		if p.renew(r) {
			w.Error("renewed a foreign lock")
		}
	}
	w.mustHold("theirs")
	w.drop()
	p.release(p.take(long), false, store.Freed)
	w.mustBeEmpty("the release")
}

// compareAndDelete is how programs in other languages unlock.
const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

func weExcludeAForeignProgram(w *world) {
	r := w.open().take(long)
	w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
		if got, err := node.SetNX(ctx, key, "theirs", long).Result(); got || err != nil {
			w.Errorf("SET NX = %v, %v, want a refusal", got, err)
		}
		if n, err := node.Eval(ctx, compareAndDelete, []string{key}, "theirs").Int(); n != 0 || err != nil {
			w.Errorf("compare and delete = %v, %v, want 0", n, err)
		}
		return nil
	})
	w.mustHold(r.Token)
}

// otherDataAreLeftAlone has the lock's key hold something else than a lock.
func otherDataAreLeftAlone(w *world) {
	p := w.open()
	data := map[string]func(ctx context.Context, c redis.UniversalClient, key string) error{
		"hash": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.HSet(ctx, key, "f", "v").Err()
		},
		"list": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.RPush(ctx, key, "v").Err()
		},
		"set": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.SAdd(ctx, key, "v").Err()
		},
		"zset": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.ZAdd(ctx, key, redis.Z{Member: "v"}).Err()
		},
		"stream": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"f", "v"}}).Err()
		},
	}
	for kind, plant := range data {
		w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
			return errors.Join(plant(ctx, node, key), node.PExpire(ctx, key, long).Err())
		})
		for what, err := range p.everyQuestion() {
			if e := (*store.Error)(nil); !errors.As(err, &e) || !e.Permanent {
				w.Errorf("%s on a %s = %v, want a permanent error", what, kind, err)
			}
			if keys := w.keys(); len(keys) != len(w.keyspace.Nodes) {
				w.Errorf("after %s on a %s there are %v, want the %s alone", what, kind, keys, kind)
			}
		}
		w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
			if got, err := node.Type(ctx, key).Result(); got != kind || err != nil {
				w.Errorf("TYPE = %q, %v, want %q", got, err, kind)
			}
			return node.Del(ctx, key).Err()
		})
	}
}

// everyQuestion puts every question about a new token, again where nodes answer too late,
// and yields their errors.
func (p *process) everyQuestion() func(yield func(what string, err error) bool) {
	ctx := p.Context()
	r := p.ref(long)
	return func(yield func(string, error) bool) {
		for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
			err := p.errorOf(func() error {
				_, err := p.Acquire(ctx, store.Request{Ref: r, Join: join, Until: soon()})
				return err
			})
			if !yield("Acquire("+joins[join]+")", err) {
				return
			}
		}
		release := func(g store.Give) error {
			return p.errorOf(func() error {
				_, _, err := p.Release(ctx, g)
				return err
			})
		}
		if !yield("Release", release(store.Give{Ref: r})) {
			return
		}
		err := p.errorOf(func() error {
			removal := []store.Removal{{Ref: r}}
			p.Remove(ctx, removal)
			return removal[0].Err
		})
		if !yield("Remove", err) {
			return
		}
		if p.Queues() && !yield("Release to the next", release(store.Give{Ref: r, Next: store.Waiter{Ref: p.ref(long)}})) {
			return
		}
		yield("Renew", p.errorOf(func() error {
			batch := []store.Renewal{{Ref: r}}
			p.renewAll(batch)
			return batch[0].Err
		}))
	}
}

// errorOf returns the error of a question, which it puts again while nodes answer too late.
func (p *process) errorOf(question func() error) error {
	err := question()
	for end := time.Now().Add(timeout); p.tooLate(err) && time.Now().Before(end); {
		p.Store.(settler).Settle() // a quorum, whose token is the same the next time
		p.Store.(settler).GiveBack()
		err = question()
	}
	return err
}

func anEndedContextAsksNothing(w *world) {
	p := w.open()
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	r := p.ref(long)
	_, err := p.Acquire(ctx, store.Request{Ref: r, Join: store.Wait, Until: soon(), Late: func(store.Answer, error) {
		w.Error("Late was called for a question that was never put")
	}})
	if e := store.AsError(err); !errors.Is(err, context.Canceled) || e.Pending || e.Ambiguous {
		w.Errorf("Acquire = %+v, want the context's error, neither pending nor ambiguous", e)
	}
	p.close() // what was under way would be over now
	w.mustBeEmpty("a question with an ended context")
}

func closingAStoreLeavesOthersOpen(w *world) {
	p, other := w.open(), w.open()
	r := p.take(long)
	p.close()
	other.mustNotGet(other.ref(long), store.Try)
	other.release(r, false, store.Freed) // the token is all it takes
	w.mustBeEmpty("the release")
}
