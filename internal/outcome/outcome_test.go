package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/outcome"
	"github.com/lockmw/kit/lockmw"
)

// refused is an error as Acquire returns it.
func refused(attempts int, retryAfter time.Duration, err error) error {
	return &lockmw.AcquireError{Key: "pay:order:42", Attempts: attempts, Queued: attempts > 1, RetryAfter: retryAfter, Err: err}
}

func because(sentinel, cause error) error { return fmt.Errorf("%w: %w", sentinel, cause) }

var (
	errHandler = errors.New("the handler failed")
	errRedis   = errors.New("WRONGTYPE lock:{pay:order:42} token 6f1c")
	errTooLong = because(lockmw.ErrInvalidKey, fmt.Errorf("body: %w", &http.MaxBytesError{Limit: 10}))
)

var outcomes = []struct {
	name string
	err  error
	want outcome.Outcome // without Detail
}{
	{"nothing", nil, outcome.Outcome{}},
	{
		"busy", refused(1, 7*time.Second, lockmw.ErrNotAcquired),
		outcome.Outcome{Kind: outcome.Busy, Code: "LOCK_BUSY", Status: 409, RetryAfter: 7 * time.Second},
	},
	{
		"waited", refused(2, 7*time.Second, lockmw.ErrNotAcquired),
		outcome.Outcome{Kind: outcome.WaitTimeout, Code: "LOCK_WAIT_TIMEOUT", Status: 409, RetryAfter: 7 * time.Second},
	},
	{
		"deadline at the first attempt", refused(1, time.Second, because(lockmw.ErrNotAcquired, context.DeadlineExceeded)),
		outcome.Outcome{Kind: outcome.Deadline, Code: "LOCK_WAIT_TIMEOUT", Status: 409, RetryAfter: time.Second},
	},
	{
		"outer lock held for too long", refused(2, time.Second, fmt.Errorf("%w: %w: %w", lockmw.ErrNotAcquired, context.Canceled, lockmw.ErrMaxHold)),
		outcome.Outcome{Kind: outcome.Deadline, Code: "LOCK_WAIT_TIMEOUT", Status: 409, RetryAfter: time.Second},
	},
	{
		"outer lock lost", refused(2, time.Second, fmt.Errorf("%w: %w: %w", lockmw.ErrNotAcquired, context.Canceled, lockmw.ErrLost)),
		outcome.Outcome{Kind: outcome.Lost, Code: "LOCK_LOST", Status: 500},
	},
	{
		"client gone", refused(3, time.Second, because(lockmw.ErrNotAcquired, context.Canceled)),
		outcome.Outcome{Kind: outcome.ClientGone, Status: 499},
	},
	{
		"bare sentinel", lockmw.ErrNotAcquired,
		outcome.Outcome{Kind: outcome.Busy, Code: "LOCK_BUSY", Status: 409, RetryAfter: time.Second},
	},
	{
		"queue full", refused(1, 3*time.Second, lockmw.ErrQueueFull),
		outcome.Outcome{Kind: outcome.QueueFull, Code: "LOCK_QUEUE_FULL", Status: 503, RetryAfter: 3 * time.Second},
	},
	{
		"unavailable", refused(1, time.Second, because(lockmw.ErrUnavailable, errRedis)),
		outcome.Outcome{Kind: outcome.Unavailable, Code: "LOCK_BACKEND_UNAVAILABLE", Status: 503, RetryAfter: time.Second},
	},
	{
		"unavailable by a timeout", refused(1, time.Second, because(lockmw.ErrUnavailable, context.DeadlineExceeded)),
		outcome.Outcome{Kind: outcome.Unavailable, Code: "LOCK_BACKEND_UNAVAILABLE", Status: 503, RetryAfter: time.Second},
	},
	{
		"lost", lockmw.ErrLost,
		outcome.Outcome{Kind: outcome.Lost, Code: "LOCK_LOST", Status: 500},
	},
	{
		"lost, joined with the handler's error", errors.Join(errHandler, lockmw.ErrLost),
		outcome.Outcome{Kind: outcome.Lost, Code: "LOCK_LOST", Status: 500},
	},
	{
		"lost, joined with a nested refusal", errors.Join(refused(1, time.Second, lockmw.ErrNotAcquired), lockmw.ErrLost),
		outcome.Outcome{Kind: outcome.Lost, Code: "LOCK_LOST", Status: 500},
	},
	{
		"no key", refused(0, 0, because(lockmw.ErrInvalidKey, errHandler)),
		outcome.Outcome{Kind: outcome.InvalidKey, Code: "LOCK_KEY_INVALID", Status: 400},
	},
	{
		"no key, for lack of a database", refused(0, 0, because(lockmw.ErrInvalidKey, lockmw.ErrUnavailable)),
		outcome.Outcome{Kind: outcome.InvalidKey, Code: "LOCK_KEY_INVALID", Status: 400},
	},
	{
		"body too large", refused(0, 0, errTooLong),
		outcome.Outcome{Kind: outcome.TooLarge, Code: "LOCK_KEY_INVALID", Status: 413},
	},
	{
		"policy", refused(0, 0, lockmw.ErrInvalidPolicy),
		outcome.Outcome{Kind: outcome.Misuse, Code: "LOCK_MISUSE", Status: 500},
	},
	{
		"nested", refused(0, 0, lockmw.ErrReentrant),
		outcome.Outcome{Kind: outcome.Misuse, Code: "LOCK_MISUSE", Status: 500},
	},
	{
		"closed", refused(0, time.Second, lockmw.ErrClosed),
		outcome.Outcome{Kind: outcome.Closed, Code: "LOCK_CLOSED", Status: 503, RetryAfter: time.Second},
	},
	{
		"not ours", errHandler,
		outcome.Outcome{Kind: outcome.Misuse, Code: "LOCK_MISUSE", Status: 500},
	},
}

func TestErrorHasItsOutcome(t *testing.T) {
	for _, tc := range outcomes {
		got := outcome.Of(tc.err)
		got.Detail = ""
		if got != tc.want {
			t.Errorf("%s: Of(%v) = %+v, want %+v", tc.name, tc.err, got, tc.want)
		}
	}
}

func TestOutcomeRevealsNothing(t *testing.T) {
	for _, tc := range outcomes {
		o := outcome.Of(tc.err)
		for _, secret := range []string{"order", "42", "6f1c", "WRONGTYPE", "Redis", "redis", "lockmw", "handler"} {
			if text := o.Title() + o.Detail; strings.Contains(text, secret) {
				t.Errorf("%s: %q shows %q", tc.name, text, secret)
			}
		}
	}
}

func TestWhoIsToldAnythingIsToldWhy(t *testing.T) {
	for _, tc := range outcomes {
		o := outcome.Of(tc.err)
		if told := o.Code != ""; told != (o.Detail != "") || told != (o.Title() != "") {
			t.Errorf("%s: code %q, title %q, detail %q: want all or none", tc.name, o.Code, o.Title(), o.Detail)
		}
	}
}
