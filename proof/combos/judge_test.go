package combos

import (
	"testing"
	"time"
)

// What the judge says of one call, next to a fault from 1 s to 1 s + long.
func TestJudgeOfOneCall(t *testing.T) {
	const ms = time.Millisecond
	type change func(c *Combination, k *call)
	for name, tc := range map[string]struct {
		fault, length string
		lasts         time.Duration
		change        change
		want          string
	}{
		"a refusal before a fault": {"READONLY", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 100*ms, 150*ms, unavailable
		}, ruleError},
		"a refusal in a fault": {"READONLY", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 1100*ms, 1150*ms, unavailable
		}, ""},
		"a refusal long after a fault": {"READONLY", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 3*time.Second, 3100*ms, unavailable
		}, ruleError},
		"a hiccup taken for an outage": {"everything stalled", hiccup, 120 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 1010*ms, 1030*ms, unavailable
		}, ruleError},
		"an outage": {"everything stalled", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 1010*ms, 1300*ms, unavailable
		}, ""},
		"without the lock while Redis is silent": {"everything stalled", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 1010*ms, 1300*ms, ranOpen
		}, ""},
		"without the lock where the policy fails closed": {"everything stalled", brief, 500 * ms, func(c *Combination, k *call) {
			c.FailOpen = false
			k.asked, k.returned, k.outcome = 1010*ms, 1300*ms, ranOpen
		}, ruleOpen},
		"without the lock in a hiccup": {"everything stalled", hiccup, 120 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 1010*ms, 1030*ms, ranOpen
		}, ruleOpen},
		"without the lock in a hiccup that the way makes longer": {"everything stalled", hiccup, 180 * ms, func(c *Combination, k *call) {
			c.Distance = 40 * ms
			k.asked, k.returned, k.outcome = 1010*ms, 1030*ms, ranOpen
		}, ""},
		"without the lock where Redis answers": {"READONLY", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 1010*ms, 1030*ms, ranOpen
		}, ruleOpen},
		"without the lock beside a broken connection": {"connections cut", "", 0, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 990*ms, 1030*ms, ranOpen
		}, ruleOpen},
		"the witness reaches Redis all along": {"everything swallowed", brief, 500 * ms, func(_ *Combination, k *call) {
			k.by, k.asked, k.returned, k.outcome = byWitness, 1010*ms, 1300*ms, unavailable
		}, ruleError},
		"held on over a silence longer than the TTL": {"everything swallowed", long, 2200 * ms, func(_ *Combination, k *call) {
			k.holds, k.returned, k.outcome, k.ended, k.released = true, 100*ms, granted, 3*time.Second, 3*time.Second
		}, ruleTold},
		"told in time of a silence longer than the TTL": {"everything swallowed", long, 2200 * ms, func(_ *Combination, k *call) {
			k.holds, k.returned, k.outcome, k.ended, k.released, k.lost, k.release = true, 100*ms, granted, 1900*ms, 1900*ms, true, lost
		}, ""},
		"lost in a silence shorter than the TTL": {"everything swallowed", brief, 500 * ms, func(c *Combination, k *call) {
			c.TTL = longTTL
			k.holds, k.returned, k.outcome, k.ended, k.released, k.lost, k.release = true, 100*ms, granted, 1900*ms, 1900*ms, true, lost
		}, ruleLease},
		"lost over a migration": {migration, "", 1500 * ms, func(c *Combination, k *call) {
			c.Group, c.Site, k.holds = Cluster, clusterSite, true
			k.returned, k.outcome, k.ended, k.released, k.lost, k.release = 100*ms, granted, 1900*ms, 1900*ms, true, lost
		}, ruleLease},
		"lost over a migration, far away": {migration, "", 1500 * ms, func(c *Combination, k *call) {
			c.Group, c.Site, c.Distance, k.holds = Cluster, clusterSite, 40*ms, true
			k.returned, k.outcome, k.ended, k.released, k.lost, k.release = 100*ms, granted, 1900*ms, 1900*ms, true, lost
		}, ""},
		"slow to go on with Redis known to be away": {"everything swallowed", long, 2300 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 2400*ms, 3100*ms, ranOpen
		}, ruleWait},
		"without the lock behind a balancer that has no server": {"connections closed at once", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome = 1010*ms, 1400*ms, ranOpen
		}, ruleOpen},
		"slow to be refused with Redis known to be away": {"LOADING", long, 2300 * ms, func(c *Combination, k *call) {
			c.FailOpen = false
			k.asked, k.returned, k.outcome = 2400*ms, 3200*ms, unavailable
		}, ruleWait},
		"a refusal of one who is alone": {"no fault", "", 0, func(_ *Combination, k *call) {
			k.returned, k.outcome = 10*ms, notAcquired
		}, ruleError},
		"a node of a Cluster, without a word": {"no fault", "", 0, func(c *Combination, k *call) {
			c.Group, c.Site = Cluster, nodeSite
			k.returned, k.outcome, k.err = 10*ms, unavailable, "MOVED 1 10.0.0.1:6379"
		}, ruleError},
		"a node of a Cluster": {"no fault", "", 0, func(c *Combination, k *call) {
			c.Group, c.Site = Cluster, nodeSite
			k.returned, k.outcome, k.err = 10*ms, unavailable, "MOVED: use redis.NewClusterClient"
		}, ""},
		"a ticket that is spent": {"READONLY", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome, k.handed = 3*time.Second, 3010*ms, spent, 2990*ms
		}, ruleTicket},
		"a ticket that comes late": {"READONLY", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome, k.handed = 1010*ms, 1900*ms, spent, 990*ms
		}, ""},
		"a ticket that was handed the lock late": {"replies lost, connection hangs", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome, k.handed, k.handing = 2*time.Second, 2010*ms, spent, 1200*ms, 790*ms
		}, ""},
		"a ticket in a fault": {"READONLY", brief, 500 * ms, func(_ *Combination, k *call) {
			k.asked, k.returned, k.outcome, k.handed = 1010*ms, 1900*ms, unavailable, 990*ms
		}, ""},
		"a full queue": {"no fault", "", 0, func(_ *Combination, k *call) {
			k.returned, k.outcome = 10*ms, queueFull
		}, ruleError},
	} {
		t.Run(name, func(t *testing.T) {
			c := Combination{
				Group: Single, Site: plainSite, Fault: tc.fault, Length: tc.length, Load: 20, Shape: stays, Keys: ownKeys,
				Form: mutex, Patience: second, FailOpen: true, TTL: shortTTL,
			}
			k := call{id: 1, by: byOurs, keys: []string{"own1"}, wait: time.Second}
			tc.change(&c, &k)
			r := newRound(nil, c, nil)
			r.windows = []window{{time.Second, time.Second + tc.lasts}}
			r.calls = []call{k}
			r.judge()
			got := ""
			if len(r.violations) > 0 {
				got = r.violations[0].Rule
			}
			if got != tc.want || len(r.violations) > 1 {
				t.Errorf("violations = %v, want %q", r.violations, tc.want)
			}
		})
	}
}

// A server whose messages come is not silent: a call goes on without the lock when it has been silent for a second.
func TestJudgeOfACallWhileMessagesCome(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		fault           string
		asked, returned time.Duration
		want            int
		left            bool // the witness got nothing
	}{
		"the last message was of one who left":     {"requests swallowed", 1100 * ms, 2950 * ms, 0, true},
		"the last message came a second before":    {"requests swallowed", 1100 * ms, 2950 * ms, 0, false},
		"it came long before":                      {"requests swallowed", 1100 * ms, 4000 * ms, 1, false},
		"no message comes":                         {"everything swallowed", 1100 * ms, 2950 * ms, 1, false},
		"asked before it is known, after messages": {"requests swallowed", 2400 * ms, 3000 * ms, 0, false},
		"asked when it is known":                   {"everything swallowed", 2400 * ms, 3000 * ms, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := Combination{
				Group: Single, Site: plainSite, Fault: tc.fault, Length: long, Load: 20, Shape: stays, Keys: ownKeys,
				Form: mutex, Patience: second, FailOpen: true, TTL: shortTTL,
			}
			r := newRound(nil, c, nil)
			r.windows = []window{{time.Second, 4500 * ms}}
			r.calls = []call{
				{id: 1, by: byOurs, keys: []string{"own1"}, wait: 2 * time.Second, asked: tc.asked, returned: tc.returned, outcome: ranOpen},
				{id: 2, by: byWitness, keys: []string{"own2"}, outcome: granted, asked: 1600 * ms, returned: 1650 * ms, ended: 1700 * ms, released: 1700 * ms},
			}
			if tc.left {
				r.calls[1].outcome, r.calls[1].wait, r.calls[1].returned = notAcquired, 100*ms, 1700*ms
			}
			r.judge()
			if got := len(r.violations); got != tc.want {
				t.Errorf("violations = %v, want %d", r.violations, tc.want)
			}
		})
	}
}

// What a call that had no time for an answer has left may lie in its successor's way for longer where thousands do the same.
func TestJudgeOfACallWithoutTimeForAnAnswer(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		load, want int
		wait       time.Duration
		keys       []string
	}{
		"one of thousands":               {crowd, 0, 20 * ms, []string{"own1"}},
		"one of a few":                   {20, 1, 20 * ms, []string{"own1"}},
		"one of thousands that had time": {crowd, 1, 200 * ms, []string{"own1"}},
		"for several keys":               {crowd, 0, 200 * ms, []string{"own1", "own2", "own3"}},
		"for several, and had time":      {crowd, 1, 250 * ms, []string{"own1", "own2", "own3"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Combination{
				Group: Single, Site: plainSite, Fault: "no fault", Load: tc.load, Shape: stays, Keys: ownKeys,
				Form: mutex, Distance: 40 * ms, TTL: shortTTL,
			}
			r := newRound(nil, c, nil)
			first := call{id: 1, by: byOurs, keys: tc.keys, wait: tc.wait, returned: 50 * ms, outcome: notAcquired, err: "the wait was over before Redis had answered"}
			second := first
			second.id, second.asked, second.returned, second.err = 2, 800*ms, 850*ms, "held by others"
			r.calls = []call{first, second}
			r.judge()
			if got := len(r.violations); got != tc.want {
				t.Errorf("violations = %v, want %d", r.violations, tc.want)
			}
		})
	}
}

// A hold at the old master counts from when ours must have followed.
func TestJudgeOfTwoMasters(t *testing.T) {
	for name, tc := range map[string]struct {
		at   time.Duration
		want int
	}{
		"before it had to follow": {500 * time.Millisecond, 0},
		"after that":              {1500 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := Combination{Group: Sentinel, Site: sentinelSite, Fault: frozenMaster, Form: mutex, Keys: oneKey, TTL: shortTTL}
			r := newRound(nil, c, nil)
			r.follows = time.Second
			for _, by := range []string{byOurs, byWitness} {
				at := r.follows + tc.at
				r.calls = append(r.calls, call{by: by, keys: []string{"turn1"}, outcome: granted, asked: at, returned: at, ended: at + time.Second})
			}
			r.judgeOverlaps()
			if got := len(r.violations); got != tc.want {
				t.Errorf("violations = %v, want %d", r.violations, tc.want)
			}
		})
	}
}

// A token draws the same round again.
func TestTokenNamesARound(t *testing.T) {
	for _, group := range Groups {
		for seed := range uint64(200) {
			c := Draw(group, systemServer, seed)
			again, err := FromToken(c.Token())
			if err != nil || again != c {
				t.Fatalf("%v, %v; want %v", again, err, c)
			}
		}
	}
}

// Hiccups are one silence where no round trip fits between them.
func TestSilence(t *testing.T) {
	const ms = time.Millisecond
	apart := func(gap time.Duration) []window { return []window{{0, 100 * ms}, {100*ms + gap, 200*ms + gap}} }
	for name, tc := range map[string]struct {
		site     string
		distance time.Duration
		windows  []window
		want     time.Duration
	}{
		"none":                             {plainSite, 0, nil, 0},
		"one":                              {plainSite, 0, []window{{0, 100 * ms}}, 100 * ms},
		"two, near":                        {plainSite, 0, apart(30 * ms), 100 * ms},
		"two, far away":                    {plainSite, 40 * ms, apart(30 * ms), 310 * ms},
		"two, far away, with a trip apart": {plainSite, 40 * ms, apart(81 * ms), 180 * ms},
		"two, with TLS":                    {tlsSite, 0, apart(30 * ms), 230 * ms},
		"two, with TLS and a handshake":    {tlsSite, 0, apart(51 * ms), 100 * ms},
	} {
		r := &round{c: Combination{Site: tc.site, Distance: tc.distance}, windows: tc.windows, exact: true}
		if got := r.silence(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestWhatWasNotAnsweredMayBeInTheWayForItsTTL(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		call call
		want time.Duration
	}{
		"released":                    {call{outcome: granted, returned: 10 * ms, released: 20 * ms}, 120 * ms},
		"refused":                     {call{outcome: notAcquired, returned: 10 * ms}, 110 * ms},
		"a try without an answer":     {call{outcome: unavailable, returned: 10 * ms}, 10*ms + shortTTL},
		"a release without an answer": {call{outcome: granted, returned: 10 * ms, released: 20 * ms, release: unavailable}, 20*ms + shortTTL},
	} {
		r := newRound(nil, Combination{Group: Single, Site: plainSite, Fault: "no fault", TTL: shortTTL}, nil)
		r.exact = true
		if got := r.inTheWay(tc.call); got != tc.want {
			t.Errorf("%s: until %v, want %v", name, got, tc.want)
		}
	}
}
