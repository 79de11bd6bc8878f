package rpcdoor

import (
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/rpcrefusal"
	"github.com/lockmw/kit/lockmw"
)

// Pushback is the trailer by which a server tells gRPC clients when they may retry:
// after so many milliseconds, or not at all if that is negative.
const Pushback = "grpc-retry-pushback-ms"

// PushbackOf returns the value of that trailer.
func PushbackOf(refusal lockmw.Refusal) string {
	if refusal.RetryAfter > 0 {
		return strconv.FormatInt(refusal.RetryAfter.Milliseconds(), 10)
	}
	return "-1"
}

// Details returns what the status of a refusal of a method, because of err, has beside its code and message.
func Details(method string, refusal lockmw.Refusal, err error) []proto.Message {
	if refusal.Code == "" {
		return nil
	}
	details := []proto.Message{rpcrefusal.Info(refusal.Code, method)}
	if refusal.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(refusal.RetryAfter)})
	}
	if value, ok := door.AtFault(refusal, err); ok {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{
			Field:       strings.ToValidUTF8(value.Name, "\ufffd"), // as protobuf wants it
			Description: strings.ToValidUTF8(value.Reason, "\ufffd"),
		}}})
	}
	return details
}

// The numbers that gRPC and Connect give to codes.
const (
	canceled         = 1
	deadlineExceeded = 4
)

// overMaxHold is what is said of a stream that has held its lock for as long as it may.
var overMaxHold = lockmw.Refusal{GRPCCode: deadlineExceeded, Detail: "The stream had exclusive access for as long as it may."}

// gone is what is said where nobody listens.
var gone = lockmw.Refusal{Status: lockmw.StatusClientGone, GRPCCode: canceled}
