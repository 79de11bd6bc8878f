// Package policies has all options.
package policies

import (
	"context"
	"time"

	"github.com/lockmw/kit/lockmw"
)

var payments = lockmw.Policy{Prefix: "pay-", TTL: time.Minute, Wait: time.Second, Retries: 3}

type Jobs interface {
	//lockmw:lock {id} policy=payments
	Base(ctx context.Context, id string) error
	//lockmw:lock policy=payments  {id} wait=1m30s name=slow
	Over(ctx context.Context, id string) error
	//lockmw:lock {id} prefix= retries=0 policy=payments
	Back(ctx context.Context, id string) error
	//lockmw:lock {id} "prefix=a b-" name=n ttl=1h wait=2ms retries=3 retry_interval=250ms max_hold=1h30m min_hold=1s min_hold_on_error=true mode=exclusive permits=2 reentrant=true fail_open=true async_release=true shadow=true retry_after=5s
	All(ctx context.Context, id string) error
	//lockmw:lock {id} retry_forever=true mode=shared reentrant=false wait=0s
	Forever(ctx context.Context, id string) error
}
