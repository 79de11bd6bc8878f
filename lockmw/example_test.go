package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// open returns a Locker on a Redis inside this program. A service passes its
// own client to New.
func open() (locks *lockmw.Locker, closeAll func()) {
	client, closeRedis := redistest.Example()
	locks, err := lockmw.New(client)
	if err != nil {
		log.Fatal(err)
	}
	return locks, func() {
		_ = locks.Close(context.Background())
		closeRedis()
	}
}

func ExampleLocker_WithLock() {
	locks, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	policy := lockmw.Policy{Prefix: "report:", Wait: 2 * time.Second}
	err := locks.WithLock(ctx, "2026-11", policy, func(ctx context.Context) error {
		fmt.Println("nobody else writes this report now")
		return ctx.Err() // ctx ends if the lock is lost
	})
	fmt.Println(err)
	// Output:
	// nobody else writes this report now
	// <nil>
}

func ExampleWithLock() {
	locks, closeAll := open()
	defer closeAll()

	number, err := lockmw.WithLock(context.Background(), locks, "invoices", lockmw.Policy{Wait: time.Second},
		func(context.Context) (int, error) { return 1042, nil })
	fmt.Println(number, err)
	// Output: 1042 <nil>
}

func ExampleWrap() {
	locks, closeAll := open()
	defer closeAll()

	charge := lockmw.Wrap(locks,
		func(order string) (string, error) { return order, nil },
		lockmw.Policy{Prefix: "order:", Retries: 3, RetryInterval: 200 * time.Millisecond},
		func(_ context.Context, order string) (string, error) { return order + " is paid", nil })

	fmt.Println(charge(context.Background(), "42"))
	// Output: 42 is paid <nil>
}

func ExampleLocker_Acquire() {
	locks, closeAll := open()
	defer closeAll()

	// The context that comes back ends when the lock is lost: the work uses it.
	ctx, lease, err := locks.Acquire(context.Background(), "42", lockmw.Policy{Prefix: "order:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holding", lease.Key(), ctx.Err())

	// Another request wants the same order.
	_, _, err = locks.Acquire(context.Background(), "42", lockmw.Policy{Prefix: "order:"})
	var refusal *lockmw.AcquireError
	switch {
	case errors.Is(err, lockmw.ErrNotAcquired) && errors.As(err, &refusal):
		fmt.Println("busy, try again in", refusal.RetryAfter.Round(time.Second))
	case errors.Is(err, lockmw.ErrUnavailable):
		fmt.Println("Redis is away")
	}

	fmt.Println("released:", lease.Release(ctx))
	// Output:
	// holding order:42 <nil>
	// busy, try again in 1s
	// released: <nil>
}

// Work that is no function of its own: its context ends when the lock is lost.
func ExampleLocker_Acquire_work() {
	locks, closeAll := open()
	defer closeAll()
	policy := lockmw.Policy{Prefix: "report:"}

	write := func(ctx context.Context) error {
		ctx, lease, err := locks.Acquire(ctx, "2026-11", policy)
		if err != nil {
			return err
		}
		defer lease.Release(ctx)

		fmt.Println("writing under", lease.Key())
		return ctx.Err()
	}
	fmt.Println(write(context.Background()))
	// Output:
	// writing under report:2026-11
	// <nil>
}

// A store that keeps the highest fence it has seen refuses a writer whose lock
// was taken over while it was not looking.
func ExampleLease_Fence() {
	locks, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	var highest int64
	write := func(fence int64, text string) {
		if fence < highest {
			fmt.Println("refused:", text)
			return
		}
		highest = fence
		fmt.Println("written:", text)
	}

	_, slow, _ := locks.Acquire(ctx, "doc", lockmw.Policy{})
	stale := slow.Fence()
	_ = slow.Release(ctx) // or its TTL passed while the process was stopped

	_, next, _ := locks.Acquire(ctx, "doc", lockmw.Policy{})
	write(next.Fence(), "by the present holder")
	write(stale, "by the former one")
	_ = next.Release(ctx)
	// Output:
	// written: by the present holder
	// refused: by the former one
}

// histogram stands for a metric of your library's.
type histogram struct{}

func (histogram) WithLabelValues(...string) histogram { return histogram{} }
func (histogram) Observe(float64)                     {}

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	var waits histogram

	locks, err := lockmw.New(client,
		lockmw.WithNamespace("shop"),        // Redis keys are "shop:{…}"; default "lock"
		lockmw.WithLogger(slog.Default()),   // refusals, lost leases, failed releases; default: silence
		lockmw.WithMaxWaiters(1000, 10_000), // per key, in total: these are the defaults
		lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
			waits.WithLabelValues(e.Kind.String(), e.Name).Observe(e.Waited.Seconds())
		}))
	fmt.Println(err, locks.Close(context.Background()))
	// Output: <nil> <nil>
}
