package release

import (
	"context"
	"fmt"
	"log"

	"github.com/lockmw/kit/lockmw"
)

type settings struct{ Lock bool }

// A lock that is taken only if it is needed, and released under the same condition.

func flagged(ctx context.Context, need bool) (err error) {
	var lease *lockmw.Lease
	locked := false
	if need {
		ctx, lease, err = locks.Acquire(ctx, "42", policy)
		if err != nil {
			return err
		}
		locked = true
	}
	err = work(ctx)
	if locked {
		_ = lease.Release(ctx)
	}
	return err
}

func flaggedOneWay(ctx context.Context, need bool) (err error) {
	var lease *lockmw.Lease
	locked := false
	if need {
		ctx, lease, err = locks.Acquire(ctx, "42", policy) // want `line 43 is reached without lease.Release`
		if err != nil {
			return err
		}
		locked = true
	}
	if err := work(ctx); err != nil {
		return err
	}
	if locked {
		return lease.Release(ctx)
	}
	return nil
}

func neverFlagged(ctx context.Context, need bool) (err error) {
	var lease *lockmw.Lease
	locked := false
	if need {
		ctx, lease, err = locks.Acquire(ctx, "42", policy) // want `line 65 is reached without lease.Release`
		if err != nil {
			return err
		}
		locked = false
	}
	err = work(ctx)
	if locked {
		_ = lease.Release(ctx)
	}
	return err
}

func askedTwice(ctx context.Context, need bool) (err error) {
	var lease *lockmw.Lease
	if need {
		ctx, lease, err = locks.Acquire(ctx, "42", policy)
		if err != nil {
			return err
		}
	}
	err = work(ctx)
	if need {
		_ = lease.Release(ctx)
	}
	return err
}

func askedAgain(ctx context.Context, need bool) (err error) {
	var lease *lockmw.Lease
	if need {
		ctx, lease, err = locks.Acquire(ctx, "42", policy) // want `line 95 is reached without lease.Release`
		if err != nil {
			return err
		}
	}
	need = work(ctx) == nil
	if need {
		_ = lease.Release(ctx)
	}
	return err
}

func askedForContrary(ctx context.Context, skip bool, mode string, s settings) (err error) {
	var lease *lockmw.Lease
	if !skip && mode != "none" && s.Lock {
		ctx, lease, err = locks.Acquire(ctx, "42", policy)
		if err != nil {
			return err
		}
	}
	if skip {
		return work(ctx)
	}
	if mode == "none" {
		return work(ctx)
	}
	if !s.Lock {
		return work(ctx)
	}
	return lease.Release(ctx)
}

func otherwise(ctx context.Context, alone bool, parts []string) (err error) {
	var lease *lockmw.Lease
	if alone || len(parts) == 0 {
		ctx = context.WithoutCancel(ctx)
	} else {
		ctx, lease, err = locks.Acquire(ctx, "42", policy)
		if err != nil {
			return err
		}
	}
	err = work(ctx)
	if !alone && len(parts) != 0 {
		_ = lease.Release(ctx)
	}
	return err
}

func inCases(ctx context.Context, need bool) (err error) {
	var lease *lockmw.Lease
	switch {
	case need:
		if ctx, lease, err = locks.Acquire(ctx, "42", policy); err != nil {
			return err
		}
	}
	err = work(ctx)
	switch {
	case need:
		_ = lease.Release(ctx)
	}
	return err
}

func anyOf(ctx context.Context, a, b bool) (err error) {
	var lease *lockmw.Lease
	if a || b {
		ctx, lease, err = locks.Acquire(ctx, "42", policy) // want `line 163 is reached without lease.Release`
		if err != nil {
			return err
		}
	}
	err = work(ctx)
	if a {
		_ = lease.Release(ctx)
	}
	return err
}

func whatTheErrorSaid(ctx context.Context) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	var locked = err == nil
	err = work(ctx)
	if locked {
		_ = lease.Release(ctx)
	}
	return err
}

func whatTheLeaseSaid(ctx context.Context) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	locked := lease != nil
	err = work(ctx)
	if locked {
		_ = lease.Release(ctx)
	}
	return err
}

func whatTheWorkSaid(ctx context.Context) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy) // want `line 196 is reached without lease.Release`
	if err != nil {
		return err
	}
	err = work(ctx)
	done := err == nil
	if done {
		return lease.Release(ctx)
	}
	return err
}

func doneAtLast(ctx context.Context, parts []string) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy) // want `line 213 is reached without lease.Release`
	if err != nil {
		return err
	}
	done := false
	for range parts {
		if work(ctx) == nil {
			done = true
		}
	}
	if done {
		return lease.Release(ctx)
	}
	return nil
}

// The form with var, and places that only print a lease.

func declared(ctx context.Context) error {
	var c, lease, err = locks.Acquire(ctx, "42", policy) // want `line 221 is reached without lease.Release`
	if err != nil || !lease.Valid() {
		return err
	}
	return work(c)
}

func declaredAndDropped(ctx context.Context) error {
	var c, _, err = locks.Acquire(ctx, "42", policy) // want `the lease is dropped`
	if err != nil {
		return err
	}
	return work(c)
}

func declaredRight(ctx context.Context) error {
	var (
		what          = "42"
		c, lease, err = locks.Acquire(ctx, what, policy)
	)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(c)
}

func printed(ctx context.Context, logger *log.Logger) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy) // want `line 254 is reached without lease.Release`
	if err != nil {
		return err
	}
	fmt.Println("locked", lease)
	log.Printf("locked: %v", lease)
	logger.Print(lease)
	return fmt.Errorf("%v: %w", lease, work(ctx))
}

func askedForLess(ctx context.Context, parts []string) (err error) {
	var lease *lockmw.Lease
	if len(parts) > 0 {
		ctx, lease, err = locks.Acquire(ctx, "42", policy) // want `line 270 is reached without lease.Release`
		if err != nil {
			return err
		}
		parts = parts[1:]
	}
	err = work(ctx)
	if len(parts) > 0 {
		_ = lease.Release(ctx)
	}
	return err
}
