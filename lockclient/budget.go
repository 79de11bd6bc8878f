package lockclient

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Budget says how often, and for how long, a call that is refused is made again. The zero value is good for most clients. A Budget is not
// changed by its use: many calls may use one at the same time.
type Budget struct {
	// Retries is how often a call is made again after its first try. Zero means 4, a negative number none.
	Retries int

	// Within is how long after the first try the last one may begin. Zero means 30 seconds; with a negative time there is no further try. The deadline of
	// the call's context counts as well: a client that could not ask again before it is given its refusal at once.
	Within time.Duration

	// OnRefusal is called for each refusal after which asking again could help, before the pause; it is for logs and metrics. Nil: nobody is told. It may be
	// called by many goroutines at the same time, and the call waits for it.
	OnRefusal func(ctx context.Context, r Refusal)
}

// A Refusal is what Budget.OnRefusal is told.
type Refusal struct {
	Code  string        // of the service, such as LOCK_BUSY
	After time.Duration // what the service asks for
	Try   int           // which the service has refused; the first is 1
	Again bool          // there is another try, after Wait; otherwise the budget is used up, and the caller is given the refusal
	Wait  time.Duration // After and a part that is drawn
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

// Again reports whether a service that refuses a call with this code has not begun to work on it, and may do so when it is asked again. The code is
// that of the body of an HTTP response ("code"), or of the ErrorInfo of a gRPC status.
func Again(code string) bool {
	switch code {
	case "LOCK_BUSY", "LOCK_WAIT_TIMEOUT", "LOCK_QUEUE_FULL", "LOCK_BACKEND_UNAVAILABLE", "LOCK_CLOSED", "IDEMPOTENCY_IN_PROGRESS":
		return true
	}
	return false
}

// Ask makes a call by try, and makes it again as long as it is refused and the budget lasts. It is what Transport and the interceptors do, for clients of
// another kind. try returns the code with which the call was refused, and after how long the service wants to be asked again; an empty code, or no time,
// means that the call is over, and so does a code for which Again is false. What the call has brought the caller keeps by itself: it is that of
// the last try.
//
// Before each further try Ask waits for as long as the service said, and for a time that is drawn on top of it: clients that were refused together do not come
// back together. What may be drawn is as long as what the service said, and doubles with each try, up to 30 seconds.
//
// Ask returns nil, or the error of ctx if that ended while it waited.
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
