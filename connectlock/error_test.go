package connectlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func TestCodeOfReadsTheReason(t *testing.T) {
	with := func(domain string) error {
		e := connect.NewError(connect.CodeAborted, errors.New("busy"))
		for _, detail := range []proto.Message{&errdetails.RetryInfo{}, &errdetails.ErrorInfo{Reason: "LOCK_BUSY", Domain: domain}} {
			encoded, err := connect.NewErrorDetail(detail)
			if err != nil {
				t.Fatal(err)
			}
			e.AddDetail(encoded)
		}
		return e
	}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"a refusal", with("lockmw"), lockmw.CodeBusy},
		{"a refusal, wrapped", fmt.Errorf("pay: %w", with("lockmw")), lockmw.CodeBusy},
		{"another server's reason", with("shop.example"), ""},
		{"an error without details", connect.NewError(connect.CodeAborted, errors.New("LOCK_BUSY")), ""},
		{"no error of connect", errors.New("LOCK_BUSY"), ""},
		{"none of connect, by its type", (*connect.Error)(nil), ""},
		{"no error", nil, ""},
	} {
		if got := connectlock.CodeOf(tc.err); got != tc.want {
			t.Errorf("%s: CodeOf = %q, want %q", tc.name, got, tc.want)
		}
	}
}

// What an error handler returns with what it was told in it: connect.NewError takes an
// error, and sends its text.
func TestErrorOfAnErrorHandlerShowsNoKey(t *testing.T) {
	const busy = "Another request is at work on the same resource."
	own := func(code connect.Code, err error) *connect.Error {
		e := connect.NewError(code, err)
		e.Meta().Set("X-Mark", "own")
		return e
	}
	for name, tc := range map[string]struct {
		handle func(error) error
		code   connect.Code
		text   string
		mark   string
		reason string
	}{
		"an error of its own":        {func(error) error { return own(connect.CodeOutOfRange, errors.New("later")) }, connect.CodeOutOfRange, "later", "own", ""},
		"its own, wrapped":           {func(error) error { return fmt.Errorf("pay: %w", own(connect.CodeOutOfRange, errors.New("later"))) }, connect.CodeOutOfRange, "later", "own", ""},
		"one that wraps what it got": {func(err error) error { return own(connect.CodeOutOfRange, err) }, connect.CodeOutOfRange, busy, "own", ""},
		"with a text in front":       {func(err error) error { return own(connect.CodeOutOfRange, fmt.Errorf("pay: %w", err)) }, connect.CodeOutOfRange, busy, "own", ""},
		"one that wraps the reason":  {func(err error) error { return own(connect.CodeOutOfRange, errors.Unwrap(err)) }, connect.CodeOutOfRange, busy, "own", ""},
		"the reason":                 {errors.Unwrap, connect.CodeAborted, busy, "", lockmw.CodeBusy},
		"what it got":                {func(err error) error { return err }, connect.CodeAborted, busy, "", lockmw.CodeBusy},
		"nothing":                    {func(error) error { return nil }, connect.CodeAborted, busy, "", lockmw.CodeBusy},
		"nothing, by its type":       {func(error) error { return (*connect.Error)(nil) }, connect.CodeAborted, busy, "", lockmw.CodeBusy},
		"no code":                    {func(error) error { return own(0, errors.New("fine")) }, connect.CodeAborted, busy, "", lockmw.CodeBusy},
		"nothing is new":             {func(error) error { return connect.NewNotModifiedError(http.Header{"Etag": {"1"}}) }, connect.CodeAborted, busy, "", lockmw.CodeBusy},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.options = append(s.options, connectlock.WithErrorHandler(func(_ context.Context, _ string, err error) error { return tc.handle(err) }))
			s.Take("order:zebra")
			_, err := s.client(t).CallUnary(t.Context(), connect.NewRequest(order("zebra")))
			e, ok := errors.AsType[*connect.Error](err)
			if !ok || e.Code() != tc.code || e.Message() != tc.text || e.Meta().Get("X-Mark") != tc.mark || connectlock.CodeOf(err) != tc.reason {
				t.Errorf("the client gets %v (%v), code %q, want %v: %s", err, e.Meta(), connectlock.CodeOf(err), tc.code, tc.text)
			}
			if strings.Contains(fmt.Sprint(err, e.Meta()), "zebra") {
				t.Errorf("the answer shows the key: %v, %v", err, e.Meta())
			}
			if seen := s.seen; tc.text == busy && strings.Contains(name, "wha") && !errors.Is(seen, lockmw.ErrNotAcquired) {
				t.Errorf("interceptors in front see %v", seen)
			}
		})
	}
}

// An error handler that hands on a lost lock to which the handler's own error is joined
// does not answer with that one.
func TestHandlersErrorIsNoAnswerToALostLock(t *testing.T) {
	s := newShop(t)
	s.options = append(s.options, connectlock.WithErrorHandler(func(_ context.Context, _ string, err error) error { return err }))
	s.pay = func(context.Context) error {
		s.lose("order:42")
		return connect.NewError(connect.CodeNotFound, errors.New("no order 42"))
	}
	_, err := s.client(t).CallUnary(t.Context(), connect.NewRequest(order("42")))
	if connect.CodeOf(err) != connect.CodeInternal || connectlock.CodeOf(err) != lockmw.CodeLost || strings.Contains(err.Error(), "42") {
		t.Errorf("the client gets %v, code %q", err, connectlock.CodeOf(err))
	}
	if !errors.Is(s.seen, lockmw.ErrLost) {
		t.Errorf("interceptors in front see %v", s.seen)
	}
}

// One that chooses the handler's own error answers with that: the text is the handler's.
func TestHandlersErrorMayBeChosenAfterALostLock(t *testing.T) {
	s := newShop(t)
	s.options = append(s.options, connectlock.WithErrorHandler(func(_ context.Context, _ string, err error) error {
		answer, _ := errors.AsType[*connect.Error](err)
		return answer
	}))
	s.pay = func(context.Context) error {
		s.lose("order:42")
		return connect.NewError(connect.CodeNotFound, errors.New("no such order"))
	}
	_, err := s.client(t).CallUnary(t.Context(), connect.NewRequest(order("42")))
	if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "no such order") {
		t.Errorf("the client gets %v, want the handler's error", err)
	}
}

// A message that is none of protobuf has no fields: that is no fault of the client.
func TestMessageWithoutFieldsIsAMistake(t *testing.T) {
	s := newShop(t)
	const procedure = "/elsewhere.Plain/Pay"
	h := connect.NewUnaryHandler(procedure, func(context.Context, *connect.Request[plain]) (*connect.Response[plain], error) {
		t.Error("the handler runs")
		return connect.NewResponse(&plain{}), nil
	}, connect.WithCodec(plainCodec{}), connect.WithInterceptors(connectlock.Interceptor(s.Locks, connectlock.Rules{procedure: {Key: keyfunc.Body("order_id")}})))
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, procedure, strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/plain")
	h.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), lockmw.CodeMisuse) {
		t.Errorf("answer = %d %s", w.Code, w.Body)
	}
}

// plain is a message of a codec of its own.
type plain struct{ OrderID string }

type plainCodec struct{}

func (plainCodec) Name() string                { return "plain" }
func (plainCodec) Marshal(any) ([]byte, error) { return nil, nil }
func (plainCodec) Unmarshal([]byte, any) error { return nil }
