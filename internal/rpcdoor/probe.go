package rpcdoor

import (
	"errors"
	"fmt"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
)

// probed calls a key function once, with a made-up call, and returns what it reads.
// The error says that it can never find what it needs. Whatever else it does, such as
// panic, says nothing about calls.
func probed(w Words, method string, key keyfunc.Func) (*door.Sample, error) {
	call := &door.Sample{CallMethod: method, CallRoute: method, Natives: nativeKeys}
	if err := call.Ask(key); errors.Is(err, keyfunc.ErrMissing) && call.Absent != "" {
		return nil, fmt.Errorf("its Key needs %s, and %s has none: take a body field or a header (metadata)", call.Absent, w.Call)
	}
	return call, nil
}
