package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// refused is an error as Acquire returns it.
func refused(attempts int, retryAfter time.Duration, err error) error {
	return &lockmw.AcquireError{Key: "pay:order:42", Attempts: attempts, Queued: attempts > 1, RetryAfter: retryAfter, Err: err}
}

// forAnswer is err of a call of Do.
func forAnswer(err error) error { return lockmw.ForAnswer(err) }

func because(sentinel, cause error) error { return fmt.Errorf("%w: %w", sentinel, cause) }

var (
	errHandler = errors.New("the handler failed")
	errRedis   = errors.New("WRONGTYPE lock:{pay:order:42} token 6f1c")
	errTooLong = because(lockmw.ErrInvalidKey, fmt.Errorf("body: %w", &http.MaxBytesError{Limit: 10}))
)

// What a client is told of each error. The gRPC codes are those of grpc/codes.
var refusals = []struct {
	name string
	err  error
	want lockmw.Refusal // without Detail; zero: not of this package
}{
	{"nothing", nil, lockmw.Refusal{}},
	{
		"busy", refused(1, 7*time.Second, lockmw.ErrNotAcquired),
		lockmw.Refusal{Status: 409, GRPCCode: 10, Code: "LOCK_BUSY", RetryAfter: 7 * time.Second},
	},
	{
		"waited", refused(2, 7*time.Second, lockmw.ErrNotAcquired),
		lockmw.Refusal{Status: 409, GRPCCode: 10, Code: "LOCK_WAIT_TIMEOUT", RetryAfter: 7 * time.Second},
	},
	{
		"deadline at the first attempt", refused(1, time.Second, because(lockmw.ErrNotAcquired, context.DeadlineExceeded)),
		lockmw.Refusal{Status: 409, GRPCCode: 4, Code: "LOCK_WAIT_TIMEOUT", RetryAfter: time.Second},
	},
	{
		"outer lock held for too long", refused(2, time.Second, fmt.Errorf("%w: %w: %w", lockmw.ErrNotAcquired, context.Canceled, lockmw.ErrMaxHold)),
		lockmw.Refusal{Status: 409, GRPCCode: 4, Code: "LOCK_WAIT_TIMEOUT", RetryAfter: time.Second},
	},
	{
		"outer lock lost", refused(2, time.Second, fmt.Errorf("%w: %w: %w", lockmw.ErrNotAcquired, context.Canceled, lockmw.ErrLost)),
		lockmw.Refusal{Status: 500, GRPCCode: 13, Code: "LOCK_LOST"},
	},
	{
		"client gone", refused(3, time.Second, because(lockmw.ErrNotAcquired, context.Canceled)),
		lockmw.Refusal{Status: 499, GRPCCode: 1},
	},
	{
		"outer lock released", refused(2, time.Second, fmt.Errorf("%w: %w: %w", lockmw.ErrNotAcquired, context.Canceled, lockmw.ErrReleased)),
		lockmw.Refusal{Status: 500, GRPCCode: 13, Code: "LOCK_MISUSE"},
	},
	{
		"bare sentinel", lockmw.ErrNotAcquired,
		lockmw.Refusal{Status: 409, GRPCCode: 10, Code: "LOCK_BUSY", RetryAfter: time.Second},
	},
	{
		"queue full", refused(1, 3*time.Second, lockmw.ErrQueueFull),
		lockmw.Refusal{Status: 503, GRPCCode: 8, Code: "LOCK_QUEUE_FULL", RetryAfter: 3 * time.Second},
	},
	{
		"unavailable", refused(1, time.Second, because(lockmw.ErrUnavailable, errRedis)),
		lockmw.Refusal{Status: 503, GRPCCode: 14, Code: "LOCK_BACKEND_UNAVAILABLE", RetryAfter: time.Second},
	},
	{
		"unavailable by a timeout", refused(1, time.Second, because(lockmw.ErrUnavailable, context.DeadlineExceeded)),
		lockmw.Refusal{Status: 503, GRPCCode: 14, Code: "LOCK_BACKEND_UNAVAILABLE", RetryAfter: time.Second},
	},
	{"lost", lockmw.ErrLost, lockmw.Refusal{Status: 500, GRPCCode: 13, Code: "LOCK_LOST"}},
	{
		"lost, joined with the handler's error", errors.Join(errHandler, lockmw.ErrLost),
		lockmw.Refusal{Status: 500, GRPCCode: 13, Code: "LOCK_LOST"},
	},
	{
		"lost, joined with a nested refusal", errors.Join(refused(1, time.Second, lockmw.ErrNotAcquired), lockmw.ErrLost),
		lockmw.Refusal{Status: 500, GRPCCode: 13, Code: "LOCK_LOST"},
	},
	{
		"no key", refused(0, 0, because(lockmw.ErrInvalidKey, errHandler)),
		lockmw.Refusal{Status: 400, GRPCCode: 3, Code: "LOCK_KEY_INVALID"},
	},
	{
		"no key, for lack of a database", refused(0, 0, because(lockmw.ErrInvalidKey, lockmw.ErrUnavailable)),
		lockmw.Refusal{Status: 400, GRPCCode: 3, Code: "LOCK_KEY_INVALID"},
	},
	{
		"body too large", refused(0, 0, errTooLong),
		lockmw.Refusal{Status: 413, GRPCCode: 3, Code: "LOCK_KEY_INVALID"},
	},
	{"policy", refused(0, 0, lockmw.ErrInvalidPolicy), lockmw.Refusal{Status: 500, GRPCCode: 13, Code: "LOCK_MISUSE"}},
	{"nested", refused(0, 0, lockmw.ErrReentrant), lockmw.Refusal{Status: 500, GRPCCode: 13, Code: "LOCK_MISUSE"}},
	{"refused for a reason of its own", refused(0, 0, errHandler), lockmw.Refusal{Status: 500, GRPCCode: 13, Code: "LOCK_MISUSE"}},
	{
		"closed", refused(0, time.Second, lockmw.ErrClosed),
		lockmw.Refusal{Status: 503, GRPCCode: 14, Code: "LOCK_CLOSED", RetryAfter: time.Second},
	},
	{
		"an answer that is being made", forAnswer(refused(2, 7*time.Second, lockmw.ErrNotAcquired)),
		lockmw.Refusal{Status: 409, GRPCCode: 10, Code: "IDEMPOTENCY_IN_PROGRESS", RetryAfter: 7 * time.Second},
	},
	{
		"an answer that is being made, until the deadline", forAnswer(refused(2, time.Second, because(lockmw.ErrNotAcquired, context.DeadlineExceeded))),
		lockmw.Refusal{Status: 409, GRPCCode: 4, Code: "IDEMPOTENCY_IN_PROGRESS", RetryAfter: time.Second},
	},
	{
		"an answer that was waited for by a client that has left", forAnswer(refused(2, time.Second, because(lockmw.ErrNotAcquired, context.Canceled))),
		lockmw.Refusal{Status: 499, GRPCCode: 1},
	},
	{
		"an answer to another request", refused(1, 0, lockmw.ErrOtherRequest),
		lockmw.Refusal{Status: 422, GRPCCode: 3, Code: "IDEMPOTENCY_KEY_REUSED"},
	},
	{
		"nobody knows", refused(1, 0, &lockmw.UncertainError{Key: "pay:order:42", ID: "42"}),
		lockmw.Refusal{Status: 409, GRPCCode: 9, Code: "IDEMPOTENCY_UNCERTAIN"},
	},
	{
		"an answer that was not kept", refused(1, 0, lockmw.ErrAnswerNotKept),
		lockmw.Refusal{Status: 409, GRPCCode: 6, Code: "IDEMPOTENCY_ANSWER_NOT_KEPT"},
	},
	{
		"no idempotency key", refused(0, 0, because(seam.ErrNoIdempotencyKey, errHandler)),
		lockmw.Refusal{Status: 400, GRPCCode: 3, Code: "IDEMPOTENCY_KEY_MISSING"},
	},
	{"not ours", errHandler, lockmw.Refusal{}},
	{"a context's end", context.Canceled, lockmw.Refusal{}},
}

func TestErrorHasItsRefusal(t *testing.T) {
	for _, tc := range refusals {
		got, ours := lockmw.RefusalOf(tc.err)
		if want := tc.want != (lockmw.Refusal{}); ours != want {
			t.Errorf("%s: RefusalOf(%v) says %t, want %t", tc.name, tc.err, ours, want)
		}
		if told := got.Code != ""; told != (got.Detail != "") {
			t.Errorf("%s: code %q, detail %q: want both or none", tc.name, got.Code, got.Detail)
		}
		for _, secret := range []string{"order", "42", "6f1c", "WRONGTYPE", "Redis", "redis", "lockmw", "handler"} {
			if strings.Contains(got.Detail, secret) {
				t.Errorf("%s: %q shows %q", tc.name, got.Detail, secret)
			}
		}
		got.Detail = ""
		if got != tc.want {
			t.Errorf("%s: RefusalOf(%v) = %+v, want %+v", tc.name, tc.err, got, tc.want)
		}
	}
}

// An API with an envelope of its own answers refusals by the same table.
func ExampleRefusalOf() {
	err := fmt.Errorf("pay order 42: %w", lockmw.ErrQueueFull) // what a handler of errors gets

	refusal, ok := lockmw.RefusalOf(err)
	if !ok {
		fmt.Println("an error of another package")
		return
	}
	fmt.Printf("HTTP %d, gRPC %d\n", refusal.Status, refusal.GRPCCode)
	fmt.Printf("{\"error\":%q,\"retry_in\":%q}\n", refusal.Code, refusal.RetryAfter)
	// Output:
	// HTTP 503, gRPC 8
	// {"error":"LOCK_QUEUE_FULL","retry_in":"1s"}
}
