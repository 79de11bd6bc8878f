package policy

import (
	"time"

	"github.com/lockmw/kit/lockmw"
)

const limit = 5 * time.Second

var wait = time.Minute

var (
	_ = lockmw.Policy{TTL: 3000}                                          // want `TTL is 3µs: is the unit missing\?`
	_ = lockmw.Policy{Prefix: "order:", Wait: wait, RetryInterval: 200}   // want `RetryInterval is 200ns: is the unit missing`
	_ = lockmw.Policy{MinHold: 2 * limit, MaxHold: limit}                 // want `the policy is refused when the program runs: .*MinHold`
	_ = lockmw.Policy{Mode: lockmw.Shared, Permits: 3}                    // want `Shared with Permits`
	_ = &lockmw.Policy{Prefix: "order:%s"}                                // want `verbs of package fmt`
	_ = lockmw.Policy{AsyncRelease: true}                                 // want `AsyncRelease`
	_ = lockmw.Flight{Policy: lockmw.Policy{Wait: limit, FailOpen: true}} // want `FailOpen has no place in a Flight`
	_ = []lockmw.Policy{{Retries: -2}}                                    // want `Retries`
)

var (
	_ = lockmw.Policy{}
	_ = lockmw.Policy{Name: "pay", Prefix: "order:", TTL: limit, Wait: 500 * time.Millisecond, Retries: lockmw.Forever}
	_ = lockmw.Policy{AsyncRelease: true, Wait: wait}
	_ = lockmw.Policy{MinHold: 2 * limit, MaxHold: wait}
	_ = lockmw.Policy{Mode: lockmw.Shared, FailOpen: true, Reentrant: true, Shadow: true}
	_ = lockmw.Flight{Policy: lockmw.Policy{Wait: limit}, Retain: time.Hour}
)
