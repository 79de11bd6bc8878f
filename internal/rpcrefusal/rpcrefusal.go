// Package rpcrefusal writes refusals into the details of an RPC's status, for the interceptors of services, and reads them there, for those of clients.
package rpcrefusal

import (
	"iter"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
)

const (
	// domain is what the codes of refusals belong to, in an errdetails.ErrorInfo.
	domain = "lockmw"
	// method is the key under which its metadata have the method whose call was refused.
	method = "method"
)

// Info returns the detail that has the code of a refusal, and the full method whose call is refused. A handler that has called another service may
// return that one's refusal as its own, wrapped or not: gRPC and Connect send its details then. So the method says whose it is.
func Info(code, fullMethod string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: code, Domain: domain, Metadata: map[string]string{method: fullMethod}}
}

// A Refusal is what the details of a status say.
type Refusal struct {
	Code   string        // empty: it is no refusal
	Method string        // that refused; empty: it is not known
	After  time.Duration // of a RetryInfo beside it; 0: there is none
}

// In returns the refusal that is found in the details of a status.
func In(details iter.Seq[any]) (r Refusal) {
	for detail := range details {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if r.Code == "" && d.GetDomain() == domain {
				r.Code, r.Method = d.GetReason(), d.GetMetadata()[method]
			}
		case *errdetails.RetryInfo:
			r.After = d.GetRetryDelay().AsDuration()
		}
	}
	return r
}

// Of returns the code of a refusal of a method itself, and when to ask again. The code is empty where the refusal is another method's.
func (r Refusal) Of(fullMethod string) (code string, after time.Duration) {
	if r.Method != fullMethod {
		return "", 0
	}
	return r.Code, r.After
}
