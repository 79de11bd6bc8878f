package combos

// knownFaults lists what is known and not mended yet. Rounds that show it are
// counted, and do not fail a run.
var knownFaults = []struct {
	What string
	Is   func(c Combination, rule string) bool
}{
	{
		"a dialer that takes as long as an attempt, where a connection takes several dials, in a Cluster or with Sentinels: calls take longer than their wait",
		func(c Combination, rule string) bool {
			return c.Trait == slowDialer && (c.Site == clusterSite || c.Site == sentinelSite) && rule == ruleWait
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
