package door

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Refusal is what a client is told of err. Doors hand over nothing but errors of
// lockmw, so another one is a mistake of the program. Where a value of the request
// is at fault, the detail says which.
func Refusal(err error) lockmw.Refusal {
	refusal, ours := lockmw.RefusalOf(err)
	if !ours && err != nil {
		refusal, _ = lockmw.RefusalOf(lockmw.ErrInvalidPolicy)
	}
	if value, ok := AtFault(refusal, err); ok {
		what, _, _ := strings.Cut(refusal.Detail, ":")
		refusal.Detail = strings.TrimSuffix(what, ".") + ": " + called(value.Source, value.Name) + " " + value.Reason + "."
	}
	return refusal
}

// AtFault returns the value for which a request is refused, with a Reason for clients. It is false
// where another thing is at fault, and where the value has no name that clients know.
func AtFault(refusal lockmw.Refusal, err error) (value keyfunc.ValueError, ok bool) {
	named := refusal.Code == lockmw.CodeKeyInvalid || refusal.Code == lockmw.CodeIdempotencyKeyMissing
	if !named || refusal.Status != http.StatusBadRequest {
		return value, false
	}
	found, ok := errors.AsType[*keyfunc.ValueError](err)
	if !ok || found.Name == "" || nouns[found.Source] == "" {
		return value, false
	}
	value = *found
	value.Reason = cmp.Or(value.Reason, "cannot be used")
	return value, true
}

// nouns are what clients call the sources of values. A method has no name, and is not among them.
var nouns = map[string]string{
	"param": "parameter", "query": "query parameter", "header": "header", "body": "body field",
	"form": "form field", "cookie": "cookie", "value": "value",
}

// called makes 'the header "X-User"' of a source and a name.
func called(source, name string) string { return "the " + nouns[source] + " " + strconv.Quote(name) }

// Unread is the error of a request of which the value called name cannot be taken, because of err.
func Unread(source, name string, err error) error {
	reason := ""
	if fault, ok := errors.AsType[*Fault](err); ok {
		reason = fault.Reason()
	}
	return &keyfunc.ValueError{Source: source, Name: name, Reason: reason, Err: fmt.Errorf("keyfunc: %s %q: %w", source, name, err)}
}

// A Fault says why a value cannot be part of a key. Its text has two halves: clients are told the reason, behind the value's
// name, as in `the header "X-User" is there more than once`, and the log has all of it.
type Fault struct{ reason, rest string }

// NewFault returns a Fault. The rest begins with its comma or colon, and may be empty.
func NewFault(reason, rest string) *Fault { return &Fault{reason, rest} }

// ErrTwice refuses a value of which a request has several that are not the same.
var ErrTwice = NewFault("is there more than once", ", and which of them counts depends on the reader")

// Error returns all of the text.
func (f *Fault) Error() string { return f.reason + f.rest }

// Reason returns what clients are told. Package keyfunc looks for it.
func (f *Fault) Reason() string { return f.reason }
