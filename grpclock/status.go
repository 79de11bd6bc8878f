package grpclock

import (
	"context"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockmw/kit/internal/outcome"
)

// domain is what the reason codes in a status belong to.
const domain = "lockmw"

// pushback is the trailer by which a server tells gRPC clients when they may
// retry: after so many milliseconds, or not at all if that is negative.
const pushback = "grpc-retry-pushback-ms"

// statusCodes are the codes of the outcomes. Contention is Aborted, which
// clients do not retry unless they are told to, so that it does not become a
// storm.
var statusCodes = [...]codes.Code{
	outcome.None:        codes.OK,
	outcome.Busy:        codes.Aborted,
	outcome.WaitTimeout: codes.Aborted,
	outcome.Deadline:    codes.DeadlineExceeded,
	outcome.ClientGone:  codes.Canceled,
	outcome.QueueFull:   codes.ResourceExhausted,
	outcome.Unavailable: codes.Unavailable,
	outcome.Lost:        codes.Internal,
	outcome.InvalidKey:  codes.InvalidArgument,
	outcome.TooLarge:    codes.InvalidArgument,
	outcome.Misuse:      codes.Internal,
	outcome.Closed:      codes.Unavailable,
}

// refuse returns the error of a call that did not get the lock, or lost it.
// setTrailer sets a trailer of the call.
func (d *door) refuse(ctx context.Context, method string, err error, setTrailer func(metadata.MD)) error {
	o := outcome.Of(err)
	if o.Kind == outcome.ClientGone {
		return statusOf(o)
	}
	if d.onError != nil {
		// Code is OK for nil, too.
		if own := d.onError(ctx, method, err); status.Code(own) != codes.OK {
			return own
		}
	}
	delay := "-1"
	if o.RetryAfter > 0 {
		delay = strconv.FormatInt(o.RetryAfter.Milliseconds(), 10)
	}
	setTrailer(metadata.Pairs(pushback, delay))
	return statusOf(o)
}

// statusOf returns the error that tells a client of o.
func statusOf(o outcome.Outcome) error {
	if o.Kind == outcome.ClientGone {
		return status.FromContextError(context.Canceled).Err() // nobody reads it
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: o.Code, Domain: domain}}
	if o.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(o.RetryAfter)})
	}
	s, err := status.New(statusCodes[o.Kind], o.Detail).WithDetails(details...)
	if err != nil {
		panic(err) // the code is none of OK, and the details are strings and numbers
	}
	return s.Err()
}
