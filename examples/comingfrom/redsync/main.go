// Command redsync pays accounts out with locks of redsync (before.go), and beside that with lockmw (after.go).
package main

import (
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/beside"
)

// errBusy is what both return while others have the lock.
var errBusy = errors.New("another payout of this account is under way")

var (
	old = beside.Side{Name: "before", Open: beside.On(func(client *redis.Client, work beside.Work) (*before, error) {
		return newBefore(client, work), nil
	}, (*before).PayOut, errBusy)}
	ours = beside.Side{Name: "after", Open: beside.On(newAfter, (*after).PayOut, errBusy)}
)

func main() { beside.Main(old, ours) }
