package rpctest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
)

// An Answer is what a client got.
type Answer struct {
	Status          *status.Status
	Header, Trailer metadata.MD
	Text            string // of the reply to a unary call
}

func (e *env) wantCode(a Answer, want codes.Code) {
	e.Helper()
	if a.Status.Code() != want {
		e.Errorf("status = %v: %s, want %v", a.Status.Code(), a.Status.Message(), want)
	}
}

// wantRefusal fails the test unless a is the refusal with that code and reason,
// complete and with nothing else in it.
func (e *env) wantRefusal(a Answer, code codes.Code, reason string) {
	e.Helper()
	e.wantCode(a, code)
	if a.Status.Message() == "" {
		e.Error("the status has no message")
	}
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	var bad *errdetails.BadRequest
	for _, detail := range a.Status.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			info = detail
		case *errdetails.RetryInfo:
			retry = detail
		case *errdetails.BadRequest:
			bad = detail
		default:
			e.Errorf("the status has a %T: %v", detail, detail)
		}
	}
	method := info.GetMetadata()["method"]
	if info.GetReason() != reason || info.GetDomain() != "lockmw" || len(info.GetMetadata()) != 1 || !strings.HasPrefix(method, ShopService) {
		e.Errorf("ErrorInfo = %v, want reason %s of lockmw, and the method", info, reason)
	}
	if bad != nil && reason != "LOCK_KEY_INVALID" && reason != "IDEMPOTENCY_KEY_MISSING" {
		e.Errorf("BadRequest = %v, want none", bad)
	}
	e.wantRetry(a, retry, reason)
	e.wantNoSecrets(a)
}

// wantField fails the test unless the status says of the call that what is so called, which is the
// field of that name, has that wrong with it, and nothing else. Without a field it names none.
func (e *env) wantField(a Answer, called, field, wrong string) {
	e.Helper()
	if field == "" {
		called, wrong = "a parameter, header or body field", "is missing or cannot be used"
	} else {
		called = fmt.Sprintf("the %s %q", called, field)
	}
	if want := "The request does not name the resource it is about: " + called + " " + wrong + "."; a.Status.Message() != want {
		e.Errorf("message = %q, want %q", a.Status.Message(), want)
	}
	var got []string
	for _, detail := range a.Status.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range bad.GetFieldViolations() {
				got = append(got, violation.GetField(), violation.GetDescription())
			}
		}
	}
	want := []string{field, wrong}
	if field == "" {
		want = nil
	}
	if !slices.Equal(got, want) {
		e.Errorf("the fields of BadRequest are %q, want %q", got, want)
	}
}

// wantRetry checks when the client is told to come back.
func (e *env) wantRetry(a Answer, retry *errdetails.RetryInfo, reason string) {
	e.Helper()
	millis := retry.GetRetryDelay().AsDuration().Milliseconds()
	switch reason {
	case "LOCK_LOST", "LOCK_KEY_INVALID", "LOCK_MISUSE", "LOCK_COOLDOWN", "IDEMPOTENCY_UNCERTAIN",
		"IDEMPOTENCY_KEY_MISSING", "IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_ANSWER_NOT_KEPT":
		if retry != nil {
			e.Errorf("RetryInfo = %v, want none", retry)
		}
	default:
		if millis < 1000 || millis > 30_000 {
			e.Errorf("RetryInfo = %v, want 1 to 30 s", retry)
		}
	}
	if err := e.fw.Retry(a, millis); err != nil {
		e.Error(err)
	}
}

// Pushback is the Retry of frameworks that tell gRPC clients when to come back.
func Pushback(a Answer, millis int64) error {
	want := strconv.FormatInt(millis, 10)
	if millis == 0 {
		want = "-1"
	}
	if got := a.Trailer.Get("grpc-retry-pushback-ms"); !slices.Equal(got, []string{want}) {
		return fmt.Errorf("the trailer grpc-retry-pushback-ms is %q, want %s", got, want)
	}
	return nil
}

// secrets are what no answer may show, in lower case, beside those of an Env.
var secrets = []string{strings.TrimSuffix(prefix, ":"), id, "redis", "keyfunc", "grpclock", "connectlock", "wrongtype", "dial", "127.0.0.1", "%!"}

func (e *env) wantNoSecrets(a Answer) {
	e.Helper()
	text := prototext.Format(a.Status.Proto())
	for _, md := range []metadata.MD{a.Header, a.Trailer} {
		for name, values := range md {
			text += "\n" + name + ": " + strings.Join(values, ", ")
		}
	}
	text = strings.ToLower(text)
	for _, secret := range slices.Concat(secrets, e.Secrets(lockKey)) {
		if strings.Contains(text, secret) {
			e.Errorf("the answer shows %q: %s", secret, text)
		}
	}
}
