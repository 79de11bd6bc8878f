package lockclient

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Budget says how often a refused call is made again, and for how long. The zero value is good for most clients. Using a Budget does not change it:
// many calls may use one at the same time.
type Budget struct {
	// Retries is how often a call is made again after its first try. Zero means 4, and a negative number none.
	Retries int

	// Within is how long after the first try the last one may begin. Zero means 30 seconds; with a negative time there is no further try. The
	// deadline of the call's context counts as well: if the client could not ask again before the deadline, it is given its refusal at once.
	Within time.Duration

	// OnRefusal is for logs and metrics. It is called for each refusal after which asking again could help, before the pause. Many goroutines may
	// call it at the same time, and the call waits for it. Nil: nobody is told.
	OnRefusal func(ctx context.Context, r Refusal)
}

// A Refusal is what Budget.OnRefusal is told of a refusal.
type Refusal struct {
	Code  string        // of the service, such as LOCK_BUSY
	After time.Duration // how long the service asks the client to wait
	Try   int           // the number of the try that was refused; the first is 1
	Again bool          // whether there is another try, after Wait; if not, the budget is used up, and the caller is given the refusal
	Wait  time.Duration // After, and a random time on top
}

const (
	defaultRetries = 4
	defaultWithin  = 30 * time.Second

	// leastSpread and mostSpread are the bounds of what may be drawn on top of what a service asks for.
	leastSpread = 100 * time.Millisecond
	mostSpread  = 30 * time.Second

	// longest is what a service may ask for at most. A date in a far year would be more than a duration can have.
	longest = 1000 * time.Hour
)

// Again reports whether a service that refuses a call with this code has not begun to work on the call, and may do so when it is asked again. The
// code is that of the body of an HTTP response ("code"), or of the ErrorInfo of a gRPC status.
func Again(code string) bool {
	switch code {
	case "LOCK_BUSY", "LOCK_WAIT_TIMEOUT", "LOCK_QUEUE_FULL", "LOCK_BACKEND_UNAVAILABLE", "LOCK_CLOSED", "IDEMPOTENCY_IN_PROGRESS":
		return true
	}
	return false
}

// Ask makes a call by try, and makes it again as long as it is refused and the budget lasts. It does what Transport and the interceptors do, for
// other kinds of clients. try returns the code with which the call was refused, and after how long the service wants to be asked again. The call is
// over if there is no code or no time, or if Again is false for the code. Ask does not return what the call has brought: try keeps that for the
// caller, and the last try counts.
//
// Before each further try, Ask waits for as long as the service said, and for a random time on top. So clients that were refused together do not come
// back together. The random time is at most what the service said, or 100 ms if that is longer. This limit doubles with each try, up to 30 seconds.
//
// Ask returns nil, or the error of ctx if ctx ended while Ask waited.
func (b Budget) Ask(ctx context.Context, try func() (code string, after time.Duration)) error {
	last := time.Now().Add(b.within())
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(last) {
		last = deadline
	}
	for n := 1; ; n++ {
		code, after := try()
		if after <= 0 || !Again(code) {
			return nil
		}
		after = min(after, longest)
		wait := after + rand.N(spread(after, n))
		asksAgain := n <= b.retries() && time.Now().Add(wait).Before(last)
		if b.OnRefusal != nil {
			b.OnRefusal(ctx, Refusal{Code: code, After: after, Try: n, Again: asksAgain, Wait: wait})
		}
		if !asksAgain {
			return nil
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// spread is what may be drawn on top of what a service asks for, after so many tries. It grows, because those who were refused again are more than
// the service has room for.
func spread(after time.Duration, tries int) time.Duration {
	most := max(after, leastSpread)
	for ; tries > 1 && most < mostSpread; tries-- {
		most *= 2
	}
	return min(most, mostSpread)
}

func pause(ctx context.Context, wait time.Duration) error {
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b Budget) retries() int {
	if b.Retries == 0 {
		return defaultRetries
	}
	return b.Retries
}

func (b Budget) within() time.Duration {
	if b.Within == 0 {
		return defaultWithin
	}
	return b.Within
}
