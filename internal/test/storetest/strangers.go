package storetest

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// strangers is about readers and programs in other languages.
var strangers = []test{
	{"ReadersExcludeAForeignProgram", readersExcludeAForeignProgram},
	{"AForeignHolderExcludesReaders", aForeignHolderExcludesReaders},
}

func readersExcludeAForeignProgram(w *world) {
	p := w.open()
	w.foreignersAreRefused([]store.Ref{p.takeAs(reader, long), p.takeAs(reader, long/2)}, p)
}

// foreignersAreRefused: programs that follow the convention can neither take
// the lock nor delete it, until the last of held is released.
func (w *world) foreignersAreRefused(held []store.Ref, p *process) {
	w.Helper()
	for len(held) > 0 {
		w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
			if got, err := node.SetNX(ctx, key, "theirs", long).Result(); got || err != nil {
				w.Errorf("SET NX beside %d holders = %v, %v, want a refusal", len(held), got, err)
			}
			for _, token := range []string{"theirs", held[0].Token} {
				if n, err := node.Eval(ctx, compareAndDelete, []string{key}, token).Int(); n != 0 || err != nil {
					w.Errorf("compare and delete beside %d holders = %v, %v, want 0", len(held), n, err)
				}
			}
			return nil
		})
		p.release(held[0], false, store.Freed)
		held = held[1:]
	}
	w.mustBeEmpty("the releases")
}

func aForeignHolderExcludesReaders(w *world) { w.foreignerExcludes(reader) }

// oddTokens are foreign programs' that look like something else.
var oddTokens = []string{"theirs", "*x", "*", "*shared2", "*permits", "*permits 2", "*permits 2 x", " *permits 2 9", ""}

func (w *world) foreignerExcludes(kind store.Kind) {
	w.Helper()
	p := w.open()
	for _, token := range oddTokens {
		w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
			return node.SetNX(ctx, key, token, long).Err()
		})
		p.excluded(kind)
		r := p.as(kind, long)
		if a := p.mustNotGet(r, store.Try); a.Left <= long-timeout || a.Left > long || a.Siblings != "" {
			w.Errorf("beside %q: Left = %v, Siblings = %q, want nearly %v and none", token, a.Left, a.Siblings, long)
		}
		if p.renew(r) {
			w.Errorf("renewed beside %q", token)
		}
		p.releaseStaying(r, long, store.NotHeld)
		w.mustHold(token)
		w.drop()
		p.release(p.takeAs(kind, long), false, store.Freed)
		w.mustBeEmpty("the release")
	}
}
