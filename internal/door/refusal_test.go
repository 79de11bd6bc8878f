package door_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func TestRefusalNamesAValueAndNothingElse(t *testing.T) {
	const private = "ann@example.com"
	told, _ := lockmw.RefusalOf(lockmw.ErrInvalidKey)
	misuse, _ := lockmw.RefusalOf(lockmw.ErrInvalidPolicy)
	tooLarge, _ := lockmw.RefusalOf(errors.Join(lockmw.ErrInvalidKey, &http.MaxBytesError{}))
	lost, _ := lockmw.RefusalOf(lockmw.ErrLost)
	value := func(source, name, reason string, err error) error {
		return fmt.Errorf("%w: of %q: %w", lockmw.ErrInvalidKey, private, &keyfunc.ValueError{
			Source: source, Name: name, Reason: reason, Err: errors.Join(errors.New(private), err),
		})
	}
	about := "The request does not name the resource it is about: "
	for _, tc := range []struct {
		err  error
		want string
	}{
		{value("param", "id", "is missing", nil), about + `the parameter "id" is missing.`},
		{value("query", "sku", "is not an integer", nil), about + `the query parameter "sku" is not an integer.`},
		{value("header", "Idempotency-Key", "is not a UUID", nil), about + `the header "Idempotency-Key" is not a UUID.`},
		{value("body", "customer.id", "", nil), about + `the body field "customer.id" cannot be used.`},
		{value("form", "a\"\n\xff", "", nil), about + `the form field "a\"\n\xff" cannot be used.`},
		{value("cookie", "session", "is missing", nil), about + `the cookie "session" is missing.`},
		{value("value", "tenant", "is missing", nil), about + `the value "tenant" is missing.`},
		{
			&lockmw.AcquireError{Err: errors.Join(seam.ErrNoIdempotencyKey, value("header", "Idempotency-Key", "is missing", nil))},
			`The request has no idempotency key: the header "Idempotency-Key" is missing.`,
		},
		{value("method", "", "is missing", nil), told.Detail},
		{fmt.Errorf("%w: %w", seam.ErrNoIdempotencyKey, value("header", "Idempotency-Key", "is missing", nil)),
			`The request has no idempotency key: the header "Idempotency-Key" is missing.`},
		{value("elsewhere", "id", "is missing", nil), told.Detail},
		{fmt.Errorf("%w: %s", lockmw.ErrInvalidKey, private), told.Detail},
		{value("body", "id", "", &http.MaxBytesError{}), tooLarge.Detail},
		{errors.Join(lockmw.ErrLost, value("param", "id", "is missing", nil)), lost.Detail},
		{&lockmw.AcquireError{Err: fmt.Errorf("%w: %w", keyfunc.ErrMisuse, &keyfunc.ValueError{Source: "value", Name: "user", Err: keyfunc.ErrInvalidValue})}, misuse.Detail},
	} {
		if got := door.Refusal(tc.err); got.Detail != tc.want {
			t.Errorf("%v:\ngot  %s\nwant %s", tc.err, got.Detail, tc.want)
		}
	}
}

// What a Request refuses to give has a reason for clients, and a text for the log.
func TestUnreadValueHasItsReason(t *testing.T) {
	fault := door.NewFault("is there twice", "for the log")
	for _, err := range []error{
		door.Unread("header", "X-User", fault),
		func() error { _, err := keyfunc.Body("id")(broken{fault}); return err }(),
	} {
		value, ok := errors.AsType[*keyfunc.ValueError](err)
		if !ok || value.Reason != "is there twice" || !errors.Is(err, fault) {
			t.Errorf("%v: %+v, want the reason of the fault", err, value)
		}
	}
}

// A broken request does not give its body.
type broken struct{ err error }

func (broken) Context() context.Context            { return context.Background() }
func (broken) Method() string                      { return "" }
func (broken) Route() string                       { return "" }
func (broken) Param(string) (string, bool)         { return "", false }
func (broken) Query(string) (string, bool)         { return "", false }
func (broken) Header(string) (string, bool)        { return "", false }
func (b broken) Body(string) (string, bool, error) { return "", false, b.err }
func (broken) Value(string) (any, bool)            { return nil, false }
