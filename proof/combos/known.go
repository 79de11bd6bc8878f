package combos

import (
	"strings"
	"time"
)

// knownFaults lists what is known and not mended yet. Rounds that show it are
// counted, and do not fail a run.
var knownFaults = []struct {
	What string
	Is   func(c Combination, rule string) bool
}{
	{
		"idle connections whose end cannot be seen, under TLS or because it is under way: commands of a burst that meet them fail",
		func(c Combination, rule string) bool {
			return (c.Site == tlsSite || c.Distance > 0) && strings.HasPrefix(c.Fault, "idle connections") && (rule == ruleError || rule == ruleOpen)
		},
	},
	{
		"a pool of one connection far away, over which commands go one after the other: they take longer than callers wait",
		func(c Combination, rule string) bool {
			return c.Trait == poolOfOne && c.Distance >= 40*time.Millisecond && (rule == ruleError || rule == ruleWait || rule == ruleCancel)
		},
	},
	{
		"a caller that leaves AcquireAll while a silent server is to set up a connection: back when that is given up",
		func(c Combination, rule string) bool {
			return rule == ruleCancel && c.keysOf() > 1 && faultOf(c).sees == silent
		},
	},
	{
		"a dialer that takes as long as the TTL of a hand-over, 1 s in a Cluster: the first renewal has no connection in time",
		func(c Combination, rule string) bool {
			return c.Trait == slowDialer && c.Site == clusterSite && rule == ruleLease
		},
	},
	{
		"a dialer that takes longer than an attempt: callers that leave wait for it, and what they left is cleaned up late",
		func(c Combination, rule string) bool {
			return c.Trait == slowDialer && (rule == ruleCancel || rule == ruleKeys || rule == ruleWait || rule == ruleError)
		},
	},
}

// known returns what a violation of a rule is known as, or "".
func known(c Combination, rule string) string {
	for _, k := range knownFaults {
		if k.Is(c, rule) {
			return k.What
		}
	}
	return ""
}
