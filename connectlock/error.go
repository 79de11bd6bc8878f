package connectlock

import (
	"context"
	"errors"
	"maps"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/internal/connectdetail"
	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/internal/rpcrefusal"
	"github.com/lockmw/kit/lockmw"
)

// CodeOf returns the code with which a server refused a call, such as lockmw.CodeBusy. It
// returns an empty string if err is nil, or is no refusal of this package or of grpclock.
// It is for clients, who get the refusal as a *connect.Error.
func CodeOf(err error) string {
	refusal, ok := errors.AsType[*connect.Error](err)
	if !ok || refusal == nil {
		return ""
	}
	return rpcrefusal.In(connectdetail.Values(refusal)).Code
}

// refuse returns the error of a call that did not get the lock, or lost it.
func (c call) refuse(err error) error {
	refusal := door.Refusal(err)
	if door.ClientGone(refusal) {
		return errorOf(c.Method, refusal)
	}
	shown := errors.New(refusal.Detail)
	if c.door.ErrorHandler != nil {
		own := c.door.ErrorHandler(c.Context, c.Method, err)
		coded, isCoded := own.(*connect.Error) //nolint:errorlint // one that is wrapped may be the handler's, joined to err
		switch {
		case silent(own):
		case !door.HandsOn(own, err), isCoded && errors.Is(err, own): // the latter is the handler's answer
			return own
		case isCoded:
			return withText(coded, refusal.Detail)
		default:
			shown = &handedOn{own, refusal.Detail}
		}
	}
	answer := newError(c.Method, refusal, err, shown)
	switch c.protocol {
	case connect.ProtocolConnect:
		if seconds := door.RetryAfter(refusal); seconds != "" {
			answer.Meta().Set("Retry-After", seconds)
		}
	case connect.ProtocolGRPC, connect.ProtocolGRPCWeb:
		answer.Meta().Set(rpcdoor.Pushback, rpcdoor.PushbackOf(refusal))
	}
	return answer
}

// silent reports whether what an error handler has returned is no answer, or one that
// some protocol would take for a success.
func silent(own error) bool {
	// A nil *connect.Error comes first, because connect before 1.21.1 panics when it looks into one.
	if coded, ok := errors.AsType[*connect.Error](own); ok && (coded == nil || coded.Code() == 0) {
		return true
	}
	return own == nil || connect.IsNotModifiedError(own)
}

// withText returns an error like e for clients, in which interceptors in front find e.
func withText(e *connect.Error, text string) *connect.Error {
	shown := connect.NewError(e.Code(), &handedOn{e, text})
	for _, detail := range e.Details() {
		shown.AddDetail(detail)
	}
	maps.Copy(shown.Meta(), e.Meta())
	return shown
}

// A handedOn is what an error handler has returned with what it was told, or a part of it, in it.
// Interceptors in front find that error; clients get the text, because that of the error
// has the key.
type handedOn struct {
	told error
	text string
}

// Error returns the text for clients.
func (h *handedOn) Error() string { return h.text }

// Unwrap returns what the error handler has returned.
func (h *handedOn) Unwrap() error { return h.told }

// errorOf returns the error that tells a client of a refusal of a method.
func errorOf(method string, refusal lockmw.Refusal) error {
	if door.ClientGone(refusal) {
		return connect.NewError(connect.CodeCanceled, context.Canceled) // nobody reads it
	}
	return newError(method, refusal, nil, errors.New(refusal.Detail))
}

// newError returns the error of a refusal of a method, because of err, with the text of shown.
func newError(method string, refusal lockmw.Refusal, err, shown error) *connect.Error {
	answer := connect.NewError(connect.Code(refusal.GRPCCode), shown)
	for _, detail := range rpcdoor.Details(method, refusal, err) {
		encoded, err := connect.NewErrorDetail(detail)
		if err != nil {
			panic(err) // the details are strings and numbers
		}
		answer.AddDetail(encoded)
	}
	return answer
}
