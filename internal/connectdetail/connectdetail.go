// Package connectdetail reads the details of Connect's errors.
package connectdetail

import (
	"iter"

	"connectrpc.com/connect"
)

// Values returns what the details of an error hold. Those of types that this program does not know are left out.
func Values(err *connect.Error) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, detail := range err.Details() {
			if value, err := detail.Value(); err == nil && !yield(value) {
				return
			}
		}
	}
}
