package grpclock

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/internal/rpcrefusal"
	"github.com/lockmw/kit/lockmw"
)

// CodeOf returns the code with which a server refused a call, such as lockmw.CodeBusy. It
// returns an empty string if err is nil, or is no refusal of this package or of
// connectlock. It is for clients, who get the refusal as an error with a gRPC status.
func CodeOf(err error) string {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return ""
	}
	return rpcrefusal.In(slices.Values(s.Details())).Code
}

// refuse returns the error of a call that did not get the lock, or lost it.
// setTrailer sets a trailer of the call.
func (i *interceptor) refuse(ctx context.Context, method string, err error, setTrailer func(metadata.MD)) error {
	refusal := door.Refusal(err)
	answer := statusOf(method, refusal, err)
	if door.ClientGone(refusal) {
		return answer
	}
	if i.ErrorHandler != nil {
		own := i.ErrorHandler(ctx, method, err)
		_, answers := own.(interface{ GRPCStatus() *status.Status })
		switch {
		case !answers && door.HandsOn(own, err):
			answer = &handedOn{own, answer}
		case status.Code(own) != codes.OK: // it is OK for nil, too
			return own
		}
	}
	setTrailer(metadata.Pairs(rpcdoor.Pushback, rpcdoor.PushbackOf(refusal)))
	return answer
}

// A handedOn is the error of a call whose error handler has returned what it was told, or a part
// of it, and no status. Interceptors in front find that error in it; clients get the status,
// because gRPC would make one of the error's text, which has the key.
type handedOn struct{ told, refusal error }

// Error returns the text of the status.
func (h *handedOn) Error() string { return h.refusal.Error() }

// Unwrap returns what the error handler has returned.
func (h *handedOn) Unwrap() error { return h.told }

// GRPCStatus returns what clients get.
func (h *handedOn) GRPCStatus() *status.Status { return status.Convert(h.refusal) }

// statusOf returns the error that tells a client of a refusal of a method, because of err.
func statusOf(method string, refusal lockmw.Refusal, err error) error {
	if door.ClientGone(refusal) {
		return status.FromContextError(context.Canceled).Err() // nobody reads it
	}
	var details []protoadapt.MessageV1
	for _, detail := range rpcdoor.Details(method, refusal, err) {
		details = append(details, protoadapt.MessageV1Of(detail))
	}
	s, err := status.New(codes.Code(refusal.GRPCCode), refusal.Detail).WithDetails(details...)
	if err != nil {
		panic(err) // the code is none of OK, and the details are strings and numbers
	}
	return s.Err()
}
