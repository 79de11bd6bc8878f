package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// Two readers are inside together, and a writer is not.
func ExamplePolicy_shared() {
	locks, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	read := lockmw.Policy{Mode: lockmw.Shared}
	_, one, err1 := locks.Acquire(ctx, "catalogue", read)
	_, two, err2 := locks.Acquire(ctx, "catalogue", read)
	_, _, err3 := locks.Acquire(ctx, "catalogue", lockmw.Policy{})
	fmt.Println(err1, err2, errors.Is(err3, lockmw.ErrNotAcquired))

	_ = one.Release(ctx)
	_ = two.Release(ctx)
	// Output: <nil> <nil> true
}

// At most two exports run at a time, over all processes.
func ExamplePolicy_permits() {
	locks, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	export := lockmw.Policy{Prefix: "export:", Permits: 2}
	_, one, _ := locks.Acquire(ctx, "pdf", export)
	_, two, _ := locks.Acquire(ctx, "pdf", export)
	_, _, err := locks.Acquire(ctx, "pdf", export)
	fmt.Println(errors.Is(err, lockmw.ErrNotAcquired))

	_ = one.Release(ctx)
	_ = two.Release(ctx)
	// Output: true
}

// A transfer locks both accounts, whichever way round they are named.
func ExampleLocker_AcquireAll() {
	locks, closeAll := open()
	defer closeAll()

	ctx, lease, err := locks.AcquireAll(context.Background(), []string{"17", "4"}, lockmw.Policy{Prefix: "account:", Wait: 2 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lease.Key())
	fmt.Println(lease.Release(ctx))
	// Output:
	// account:17, account:4
	// <nil>
}

func ExampleLocker_WithLocks() {
	locks, closeAll := open()
	defer closeAll()

	accounts := []string{"17", "4"}
	err := locks.WithLocks(context.Background(), accounts, lockmw.Policy{Prefix: "account:"}, func(ctx context.Context) error {
		lease, _ := lockmw.FromContext(ctx)
		fmt.Println("transfer under", lease.Key())
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// transfer under account:17, account:4
	// <nil>
}

// The server ends first, then the locks that its requests held.
func ExampleLocker_Close() {
	locks, closeAll := open()
	defer closeAll()
	server := &http.Server{Addr: "localhost:0", ReadHeaderTimeout: 10 * time.Second}

	last, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := errors.Join(server.Shutdown(last), locks.Close(last)) // requests first, then their locks
	fmt.Println(err)
	// Output: <nil>
}

func ExampleNewQuorum() {
	var nodes []redis.UniversalClient
	for _, addr := range []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"} {
		client := redis.NewClient(&redis.Options{Addr: addr})
		defer client.Close()
		nodes = append(nodes, client)
	}
	locks, err := lockmw.NewQuorum(nodes) // does no I/O yet
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = locks.Acquire(context.Background(), "export", lockmw.Policy{Permits: 2})
	fmt.Println(errors.Is(err, lockmw.ErrInvalidPolicy), locks.Close(context.Background()))
	// Output: true <nil>
}

func ExampleLocker_Inspect() {
	locks, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	_, lease, _ := locks.Acquire(ctx, "42", lockmw.Policy{Prefix: "order:"})
	info, err := locks.Inspect(ctx, "order:42")
	fmt.Println(info.Held, len(info.Holders), info.Holders[0].Instance == locks.Instance(), info.Waiting, err)
	_ = lease.Release(ctx)
	// Output: true 1 true 0 <nil>
}
