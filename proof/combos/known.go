package combos

import "strings"

// knownFaults lists what is known and not mended yet. Rounds that show it are
// counted, and do not fail a run.
var knownFaults = []struct {
	What string
	Is   func(c Combination, rule string) bool
}{
	{
		"idle TLS connections whose end cannot be seen: commands of a burst that meet them fail",
		func(c Combination, rule string) bool {
			return c.Site == tlsSite && strings.HasPrefix(c.Fault, "idle connections") && (rule == ruleError || rule == ruleOpen)
		},
	},
	{
		"a dialer that takes longer than an attempt: callers that leave wait for it, and what they left is cleaned up late",
		func(c Combination, rule string) bool {
			return c.Trait == slowDialer && (rule == ruleCancel || rule == ruleKeys || rule == ruleWait || rule == ruleError)
		},
	},
}

// known returns what a violation is known as, or "".
func known(c Combination, rule string) string {
	for _, k := range knownFaults {
		if k.Is(c, rule) {
			return k.What
		}
	}
	return ""
}
