// Package rpcrefusal is what the interceptors of services and those of clients have in common: how a refusal stands in the details of a status.
package rpcrefusal

import (
	"iter"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
)

// Domain is what the codes of refusals belong to, in an errdetails.ErrorInfo.
const Domain = "lockmw"

// In returns the code of a refusal that is found in the details of a status, or an empty string, and the time of a RetryInfo beside it, or zero.
func In(details iter.Seq[any]) (code string, after time.Duration) {
	for detail := range details {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if code == "" && d.GetDomain() == Domain {
				code = d.GetReason()
			}
		case *errdetails.RetryInfo:
			after = d.GetRetryDelay().AsDuration()
		}
	}
	return code, after
}
