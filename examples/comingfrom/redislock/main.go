// Command redislock imports catalogues with locks of redislock (before.go), and beside that with lockmw (after.go).
package main

import (
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/beside"
)

// errBusy is what both return while others have the lock.
var errBusy = errors.New("this shop is being imported already")

var (
	old = beside.Side{Name: "before", Open: beside.On(func(client *redis.Client, work beside.Work) (*before, error) {
		return newBefore(client, work), nil
	}, (*before).Import, errBusy)}
	ours = beside.Side{Name: "after", Open: beside.On(newAfter, (*after).Import, errBusy)}
)

func main() { beside.Main(old, ours) }
