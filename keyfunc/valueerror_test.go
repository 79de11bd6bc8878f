package keyfunc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// private is a value, of which nothing must be in what a ValueError has for clients.
const private = "ann@example.com"

// leaky is a Request whose every value is private, and whose body and form quote it in their errors.
type leaky struct{ call }

func (leaky) Param(string) (string, bool)  { return private, true }
func (leaky) Query(string) (string, bool)  { return strings.Repeat(private, 1000), true }
func (leaky) Header(string) (string, bool) { return "", true }
func (leaky) Body(string) (string, bool, error) {
	return private, true, fmt.Errorf("broken at %q", private)
}
func (leaky) Value(string) (any, bool) { return unmarshalable{private}, true }

func TestValueErrorNamesWhatTheProgramLooksFor(t *testing.T) {
	for _, tc := range []struct {
		key  keyfunc.Func
		want string
		is   error
	}{
		{keyfunc.Header("X-User"), `header X-User: is missing`, keyfunc.ErrMissing},
		{keyfunc.Optional(keyfunc.Header("X-User")), `header X-User: is missing`, keyfunc.ErrMissing},
		{keyfunc.Query("sku"), `query sku: is longer than 8 KiB`, keyfunc.ErrInvalidValue},
		{keyfunc.MustParse("a:{param.id|int}"), `param id: is not an integer`, keyfunc.ErrInvalidValue},
		{keyfunc.MustParse("a:{param.id|uuid}"), `param id: is not a UUID`, keyfunc.ErrInvalidValue},
		{keyfunc.MustParse("{params|uuid}"), `param id: is not a UUID`, keyfunc.ErrInvalidValue},
		{keyfunc.All(keyfunc.Const("a"), keyfunc.Hash(keyfunc.Join(keyfunc.Body("customer.id")))), `body customer.id: `, nil},
		{keyfunc.Value("user"), `value user: `, keyfunc.ErrInvalidValue},
	} {
		_, err := tc.key(leaky{call{route: "/orders/:id"}})
		found, ok := errors.AsType[*keyfunc.ValueError](err)
		if !ok {
			t.Errorf("%s: the error is %v, and no ValueError", tc.want, err)
			continue
		}
		if got := fmt.Sprintf("%s %s: %s", found.Source, found.Name, found.Reason); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
		if tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v is not %v", tc.want, err, tc.is)
		}
	}
}
