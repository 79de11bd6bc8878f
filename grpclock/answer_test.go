package grpclock_test

import (
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
)

// An answer is what a client got.
type answer struct {
	status          *status.Status
	header, trailer metadata.MD
}

func (e *env) wantCode(a answer, want codes.Code) {
	e.Helper()
	if a.status.Code() != want {
		e.Errorf("status = %v: %s, want %v", a.status.Code(), a.status.Message(), want)
	}
}

// wantRefusal fails the test unless a is the refusal with that code and reason,
// complete and with nothing else in it.
func (e *env) wantRefusal(a answer, code codes.Code, reason string) {
	e.Helper()
	e.wantCode(a, code)
	if a.status.Message() == "" {
		e.Error("the status has no message")
	}
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, detail := range a.status.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			info = detail
		case *errdetails.RetryInfo:
			retry = detail
		default:
			e.Errorf("the status has a %T: %v", detail, detail)
		}
	}
	if info.GetReason() != reason || info.GetDomain() != "lockmw" || len(info.GetMetadata()) > 0 {
		e.Errorf("ErrorInfo = %v, want reason %s of lockmw", info, reason)
	}
	e.wantRetry(a.trailer.Get("grpc-retry-pushback-ms"), retry, reason)
	e.wantNoSecrets(a)
}

// wantRetry checks when the client is told to come back.
func (e *env) wantRetry(pushback []string, retry *errdetails.RetryInfo, reason string) {
	e.Helper()
	if len(pushback) != 1 {
		e.Errorf("the trailer is there %d times: %q", len(pushback), pushback)
		return
	}
	switch reason {
	case "LOCK_LOST", "LOCK_KEY_INVALID", "LOCK_MISUSE":
		if retry != nil || pushback[0] != "-1" {
			e.Errorf("RetryInfo = %v, trailer %s; want none, -1", retry, pushback[0])
		}
		return
	}
	millis, err := strconv.ParseInt(pushback[0], 10, 64)
	if err != nil || millis < 1000 || millis > 30_000 || millis != retry.GetRetryDelay().AsDuration().Milliseconds() {
		e.Errorf("RetryInfo = %v, trailer %s; want 1 to 30 s, the same in both", retry, pushback[0])
	}
}

// secrets are what no status may show, in lower case.
var secrets = []string{strings.TrimSuffix(prefix, ":"), id, "redis", "keyfunc", "grpclock", "wrongtype", "dial", "127.0.0.1", "%!"}

func (e *env) wantNoSecrets(a answer) {
	e.Helper()
	text := prototext.Format(a.status.Proto())
	for _, md := range []metadata.MD{a.header, a.trailer} {
		for name, values := range md {
			text += "\n" + name + ": " + strings.Join(values, ", ")
		}
	}
	text = strings.ToLower(text)
	hidden := append([]string{strings.ToLower(e.Namespace)}, secrets...)
	if held := e.Client.Get(e.Context(), e.RedisKey(lockKey)).Val(); held != "" {
		hidden = append(hidden, strings.ToLower(held))
	}
	for _, secret := range hidden {
		if strings.Contains(text, secret) {
			e.Errorf("the answer shows %q: %s", secret, text)
		}
	}
}
