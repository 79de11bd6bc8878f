package main

// Checks of how a lock passes on within a process.
const (
	joins   = "TestWhoJoinsWhileATenureLasts"
	fences  = "TestFencesGrowBehindATenure"
	unheard = "TestNothingPassesOnUnheard"
)

// tenures are the mistakes in how leases of one process follow one another without Redis.
var tenures = []mutant{
	{
		name: "tenure that ignores others who wait",
		what: "a process passes its lock on to its own, though it was told that another's came before",
		edits: []edit{{
			"internal/waitqueue/waiter.go",
			"	if q.others.token != token || q.others.came == 0 {\n",
			"	if q.others.token != token || q.others.came != -1 {\n",
		}},
		in: inChecks, tests: joins + "/told", says: "behind those who came before",
	},
	{
		name: "tenure without the bound of a second",
		what: "a process that is not told of others passes its lock on for as long as it is renewed",
		edits: []edit{{
			"lockmw/tenure.go",
			"	case now.since(t.first.since) > localPass(t.ttl), t.promise.ttl",
			"	case t.promise.ttl",
		}},
		in: inChecks, tests: joins + "/not_told", says: "has no turn",
	},
	{
		name: "tenure without a subscription",
		what: "a process passes its lock on, though it would not be told of others who wait",
		edits: []edit{{
			"lockmw/tenure.go",
			"	case !t.locker.relays, !t.locker.subscriber.hasHeardSince(t.first.session):\n",
			"	case !t.locker.relays:\n",
		}},
		in: inChecks, tests: unheard, says: "passed on without Redis",
	},
	{
		name: "local fence that does not grow",
		what: "all leases of a tenure have the fence that Redis gave",
		edits: []edit{{
			"lockmw/tenure.go",
			"	if fence = t.ref.Fence + 1; fence > ",
			"	if fence = t.ref.Fence; fence > ",
		}},
		in: inChecks, tests: fences, says: "fence ",
	},
	{
		name: "local fence ahead of the clock",
		what: "local fences follow one that is ahead of Redis's clock, which mints the next one when their process has ended",
		edits: []edit{{
			"lockmw/tenure.go",
			" > min(t.first.Fence, t.first.Clock)+(",
			" > t.first.Fence+(",
		}},
		in: inChecks, tests: fences, says: "forced, then cut off: fence ",
	},
	{
		name: "local hand-over counts anew",
		what: "a lease that follows another is trusted for a TTL from then on, past the end of what Redis has granted",
		edits: []edit{{
			"lockmw/tenure.go",
			"	t.ref.Fence = fence\n	return fence, true\n",
			"	t.ref.Fence = fence\n	t.promise.since = now\n	return fence, true\n",
		}},
		in: inChecks, tests: "TestATenureThatIsCutOffEndsInTime", says: "are inside",
	},
	{
		name: "force without room for local fences",
		what: "after a release by force the next fence follows the one that Redis knows, not those that its holder's process has used",
		edits: []edit{{
			"internal/redisstore/lua/force.lua",
			"if last_fence > 0 and not far_ahead then last_fence = last_fence + LOCAL_FENCES end\n",
			"",
		}},
		in: inChecks, tests: "TestFencesGrowWhereTheClockIsSetBack", says: "fence ",
	},
	{
		name: "each turn asks Redis",
		what: "nothing passes on within a process",
		edits: []edit{{
			"lockmw/tenure.go",
			"	return ok && t.locker.waiters.PassOn(",
			"	return false && ok && t.locker.waiters.PassOn(",
		}},
		in: inChecks, tests: "TestTurnsWithinAProcess", says: "of 1 / hold",
	},
}
