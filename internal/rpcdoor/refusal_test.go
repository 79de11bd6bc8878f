package rpcdoor_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/internal/rpcrefusal"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func TestRefusalHasItsReasonAndWhenToRetry(t *testing.T) {
	for _, tc := range []struct {
		refusal  lockmw.Refusal
		details  int
		pushback string
	}{
		{lockmw.Refusal{Code: lockmw.CodeBusy, RetryAfter: 1500 * time.Millisecond}, 2, "1500"},
		{lockmw.Refusal{Code: lockmw.CodeLost}, 1, "-1"},
		{lockmw.Refusal{}, 0, "-1"},
	} {
		var details []any
		for _, detail := range rpcdoor.Details("/shop.v1.Orders/Pay", tc.refusal, nil) {
			details = append(details, detail)
		}
		if len(details) != tc.details {
			t.Errorf("%+v: details %v", tc.refusal, details)
		}
		found := rpcrefusal.In(slices.Values(details))
		if code, after := found.Of("/shop.v1.Orders/Pay"); code != tc.refusal.Code || tc.refusal.Code != "" && after != tc.refusal.RetryAfter {
			t.Errorf("%+v: code %q, after %v", tc.refusal, code, after)
		}
		if code, after := found.Of("/shop.v1.Stock/Reserve"); found.Code != tc.refusal.Code || code != "" || after != 0 {
			t.Errorf("%+v is taken for one of another method: %q", tc.refusal, code)
		}
		if got := rpcdoor.PushbackOf(tc.refusal); got != tc.pushback {
			t.Errorf("%+v: pushback %s, want %s", tc.refusal, got, tc.pushback)
		}
	}
}

// A template may hold what is not UTF-8, which no message may.
func TestFieldAtFaultIsOneThatAMessageMayHold(t *testing.T) {
	err := fmt.Errorf("%w: %w", lockmw.ErrInvalidKey, &keyfunc.ValueError{Source: "value", Name: "a\xff", Reason: "is missing", Err: keyfunc.ErrMissing})
	details := rpcdoor.Details("/shop.v1.Orders/Pay", door.Refusal(err), err)
	if len(details) != 2 {
		t.Fatalf("details %v, want two", details)
	}
	if _, err := proto.Marshal(details[1]); err != nil {
		t.Error(err)
	}
	want := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "a\ufffd", Description: "is missing"}}}
	if !proto.Equal(details[1], want) {
		t.Errorf("detail %v, want %v", details[1], want)
	}
}
