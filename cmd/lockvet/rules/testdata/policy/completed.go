package policy

import (
	"context"
	"time"

	"github.com/lockmw/kit/lockmw"
)

var locks *lockmw.Locker

func work(context.Context) error { return nil }

type options struct {
	Policy lockmw.Policy
	Name   string
}

// Policies that nobody completes.

var short = lockmw.Policy{AsyncRelease: true} // want `AsyncRelease`

func uses(ctx context.Context) error {
	if err := locks.WithLock(ctx, "42", short, work); err != nil {
		return err
	}
	err := locks.WithLock(ctx, "42", lockmw.Policy{AsyncRelease: true}, work) // want `AsyncRelease`
	own := lockmw.Policy{AsyncRelease: true, Wait: 0}                         // want `AsyncRelease`
	if err == nil && own.Wait == 0 {
		err = locks.WithLock(ctx, "42", own, work)
	}
	return err
}

func answers(ctx context.Context) error {
	_, _, err := lockmw.Do(ctx, locks, "42", lockmw.Flight{Policy: lockmw.Policy{AsyncRelease: true}}, func(context.Context) (int, error) { // want `AsyncRelease`
		return 0, nil
	})
	return err
}

// What is wrong whatever is added.

func contradicts() lockmw.Policy {
	return lockmw.Policy{MinHold: 2 * limit, MaxHold: limit, AsyncRelease: true} // want `MinHold`
}

func contradictsInside() options {
	return options{Policy: lockmw.Policy{Mode: lockmw.Shared, Permits: 3}} // want `Shared with Permits`
}

// Policies that are completed.

func inside(wait time.Duration) options {
	o := options{Policy: lockmw.Policy{AsyncRelease: true, MinHold: 2 * limit, MaxHold: limit}}
	o.Policy.Wait = wait
	o.Policy.MaxHold = 3 * limit
	return o
}

func inList(wait time.Duration) []options {
	all := []options{{Policy: lockmw.Policy{AsyncRelease: true}}}
	all[0].Policy.Wait = wait
	return all
}

func base() lockmw.Policy { return lockmw.Policy{Prefix: "order:", AsyncRelease: true} }

func onBase(wait time.Duration) lockmw.Policy {
	p := base()
	p.Wait = wait
	return p
}

var common = lockmw.Policy{AsyncRelease: true}

func onCommon(ctx context.Context, wait time.Duration) error {
	p := common
	p.Wait = wait
	return locks.WithLock(ctx, "42", p, work)
}

func onPointer(wait time.Duration) *lockmw.Policy {
	p := &lockmw.Policy{AsyncRelease: true}
	complete(p, wait)
	return p
}

func complete(p *lockmw.Policy, wait time.Duration) { p.Wait = wait }

func onAddress(ctx context.Context, set func(*time.Duration)) error {
	p := lockmw.Policy{AsyncRelease: true}
	set(&p.Wait)
	return locks.WithLock(ctx, "42", p, work)
}

func onParameter(ctx context.Context) error {
	return waiting(ctx, lockmw.Policy{AsyncRelease: true})
}

func waiting(ctx context.Context, p lockmw.Policy) error {
	p.Wait = limit
	return locks.WithLock(ctx, "42", p, work)
}

// Common is for other packages, which add what they want.
var Common = lockmw.Policy{AsyncRelease: true}
