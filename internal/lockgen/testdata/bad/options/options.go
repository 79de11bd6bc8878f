// Package options has mistakes in options.
package options

import (
	"context"

	"github.com/lockmw/kit/lockmw"
)

var policies = lockmw.Policy{}

const wait = 1

type Options interface {
	// want 21: unknown option "expire"; it is ttl here
	//
	//lockmw:lock {id} expire=3s
	A1(ctx context.Context, id string) error
	// want 25: 3000 has no unit: write 3000ms or 3000s
	//
	//lockmw:lock {id} ttl=3000
	A2(ctx context.Context, id string) error
	// want 25: "soon" is no duration: write 200ms, 3s or 1m30s
	//
	//lockmw:lock {id} ttl=soon
	A3(ctx context.Context, id string) error
	// want 25: ttl: 10ms is less than 100ms: the margins for clock drift and for telling the holder in time would use it up
	//
	//lockmw:lock {id} ttl=10ms
	A4(ctx context.Context, id string) error
	// want 29: "many" is no number
	//
	//lockmw:lock {id} retries=many
	A5(ctx context.Context, id string) error
	// want 29: write retry_forever=true
	//
	//lockmw:lock {id} retries=forever
	A6(ctx context.Context, id string) error
	// want 29: 0 is one attempt, which is also what leaving it out means; retry_forever=true sets no limit
	//
	//lockmw:lock {id} retries=0
	A7(ctx context.Context, id string) error
	// want 31: it has both retries and retry_forever
	//
	//lockmw:lock {id} retries=3 retry_forever=true
	A8(ctx context.Context, id string) error
	// want 29: wait= stands here twice
	//
	//lockmw:lock {id} wait=1s wait=2s
	A9(ctx context.Context, id string) error
	// want 26: "reader" is neither shared nor exclusive
	//
	//lockmw:lock {id} mode=reader
	B1(ctx context.Context, id string) error
	// want 26: mode: Shared with Permits: a lock is either for readers and a writer or a semaphore
	//
	//lockmw:lock {id} mode=shared permits=2
	B2(ctx context.Context, id string) error
	// want 42: min_hold: 2s is more than MaxHold (1s)
	//
	//lockmw:lock {id} max_hold=1s min_hold=2s
	B3(ctx context.Context, id string) error
	// want 31: "maybe" is neither true nor false
	//
	//lockmw:lock {id} reentrant=maybe
	B4(ctx context.Context, id string) error
	// want 21: "reentrant" is read as a key; as an option it is written reentrant=true
	//
	//lockmw:lock {id} reentrant
	B5(ctx context.Context, id string) error
	// want 21: "ttl:3s" is read as a key; as an option it is written ttl=3s
	//
	//lockmw:lock {id} ttl:3s
	B6(ctx context.Context, id string) error
	// want 27: an option has no space in it: write ttl=3s
	//
	//lockmw:lock order:{id} ttl: 3s
	D3(ctx context.Context, id string) error
	// want 21: an option has no space in it: write wait=3s
	//
	//lockmw:lock {id} wait= 3s
	D4(ctx context.Context, id string) error
	// want 21: an option has no space in it: write wait=3s
	//
	//lockmw:lock {id} wait = 3s
	D5(ctx context.Context, id string) error
	// want 21: an option has no space in it: write policy=policies
	//
	//lockmw:lock {id} policy =policies
	D6(ctx context.Context, id string) error
	// want 16: no comment stands behind a directive: write it into a line above
	//
	//lockmw:lock //{id}
	D8(ctx context.Context, id string) error
	// want 21: "prefix:" is read as a key; as an option it is written prefix=order:
	//
	//lockmw:lock {id} prefix:
	D9(ctx context.Context, id string) error
	// want 21: unknown option "waite"; did you mean "wait"?
	//
	//lockmw:lock {id} waite=3s
	B7(ctx context.Context, id string) error
	// want 21: unknown option "colour"; known are prefix, ttl, wait, retries, retry_forever, retry_interval, max_hold, min_hold and 10 more
	//
	//lockmw:lock {id} colour=red
	B8(ctx context.Context, id string) error
	// want 28: it is empty: leave it out
	//
	//lockmw:lock {id} prefix=
	B9(ctx context.Context, id string) error
	// want 28: quotes go around the whole word: "prefix=a b"
	//
	//lockmw:lock {id} prefix="a b"
	C1(ctx context.Context, id string) error
	// want 25: quotes go around the whole word: "ttl=3s"
	//
	//lockmw:lock {id} ttl="3s"
	E1(ctx context.Context, id string) error
	// want 31: quotes go around the whole word: "reentrant=true"
	//
	//lockmw:lock {id} reentrant=`true`
	E2(ctx context.Context, id string) error
	// want 28: quotes go around the whole word: "policy=policies"
	//
	//lockmw:lock {id} policy="policies"
	E3(ctx context.Context, id string) error
	// want 28: prefix: has the character '{'; braces and control characters are not allowed
	//
	//lockmw:lock {id} prefix={x}
	C2(ctx context.Context, id string) error
	// want 16: unknown option "key"; the key has no name in front: //lockmw:lock KEY… [option=value…]
	//
	//lockmw:lock key={id}
	C3(ctx context.Context, id string) error
	// want 21: unknown option "paramLock"; write {params} as the key
	// want 36: unknown option "lockAtMostFor"; it is ttl here
	// want 53: unknown option "autoRelease"; a lock is always released; min_hold keeps it taken for longer
	//
	//lockmw:lock {id} paramLock=true lockAtMostFor=1m autoRelease=false
	C4(ctx context.Context, id string) error
	// want 28: the package has no variable "policy"; known are policies
	//
	//lockmw:lock {id} policy=policy
	C5(ctx context.Context, id string) error
	// want 28: wait is no variable of the type lockmw.Policy
	//
	//lockmw:lock {id} policy=wait
	C6(ctx context.Context, id string) error
	// want 37: policy= stands here twice
	//
	//lockmw:lock {id} policy=policies policy=policies
	C7(ctx context.Context, id string) error
	// want 26: wait: -1s is negative
	//
	//lockmw:lock {id} wait=-1s
	C8(ctx context.Context, id string) error
	// want 29: -1 is negative; without a limit it is retry_forever=true
	//
	//lockmw:lock {id} retries=-1
	C9(ctx context.Context, id string) error
	// want 35: leave it out: without retries and wait there is one attempt
	//
	//lockmw:lock {id} retry_forever=false
	D1(ctx context.Context, id string) error
}
