// Command rueidislock rebuilds indices with locks of rueidislock (before.go), and beside that with lockmw
// (after.go). Then it does so with the locks of majority.go.
package main

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/beside"
)

// errBusy is what all return while others have the lock.
var errBusy = errors.New("another rebuild of this index is under way")

// With one key for each lock, which both use.
var (
	old  = beside.Side{Name: "before", Open: openBefore(newBefore)}
	ours = beside.Side{Name: "after", Open: beside.On(newAfter, (*after).Rebuild, errBusy)}
)

// With three keys for each lock of rueidislock.
var (
	oldMajority  = beside.Side{Name: "before", Open: openBefore(newBeforeMajority)}
	inBetween    = beside.Side{Name: "between", Open: beside.On(newBetween, (*between).Rebuild, errBusy)}
	oursMajority = beside.Side{Name: "after", Open: beside.On(newAfterMajority, (*after).Rebuild, errBusy)}
)

func main() {
	fmt.Println("one key:")
	beside.Main(old, ours)
	fmt.Println("three keys:")
	beside.Main(oldMajority, inBetween)
	beside.Main(inBetween, oursMajority)
}

func openBefore(open func(addr string, rebuild beside.Work) (*before, error)) func(addr string, work beside.Work) (beside.Program, error) {
	return beside.On(func(client *redis.Client, work beside.Work) (*before, error) {
		return open(client.Options().Addr, work)
	}, (*before).Rebuild, errBusy)
}
