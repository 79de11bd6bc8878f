package main

const (
	// Others do something before each of the commands that take a free lock.
	between = "TestOthersComeBetweenTheCommandsThatTakeALock"

	// A release comes when another has the lock.
	late = "TestALateReleaseLeavesTheNextHolderAlone"
)

// native are the mistakes in the way to Redis: in the four plain commands that take a free
// lock, in the script that gives it back, and in the connections that all callers share.
var native = []mutant{
	{
		name: "SET without NX",
		what: "a lock is taken whether it is free or not",
		edits: []edit{
			{"internal/redisstore/set.go", `wire.AppendCommand(b, 6), "SET"`, `wire.AppendCommand(b, 5), "SET"`},
			{"internal/redisstore/set.go", `wire.AppendString(wire.AppendString(b, "NX"), "PX")`, `wire.AppendString(b, "PX")`},
		},
		in: inMatrix, tests: underLoad, says: "overlap:",
	},
	{
		name: "SET NX, then PEXPIRE",
		what: "a free lock gets its TTL by a second command, and has none if the holder dies before",
		edits: []edit{
			{"internal/redisstore/set.go", `wire.AppendCommand(b, 6), "SET"`, `wire.AppendCommand(b, 4), "SET"`},
			{
				"internal/redisstore/set.go",
				`wire.AppendInt(wire.AppendString(wire.AppendString(b, "NX"), "PX"), millis(r.TTL))`,
				`wire.AppendString(b, "NX")`,
			},
			{
				"internal/redisstore/set.go",
				"	return store.Answer{Granted: true, Grant: store.Grant{Fence: fence, Clock: fence, Estimate: estimate}}, decided, nil\n",
				"	s.client.PExpire(ctx, s.keys(r.Key)[0], r.TTL)\n	return store.Answer{Granted: true, Grant: store.Grant{Fence: fence, Clock: fence, Estimate: estimate}}, decided, nil\n",
			},
		},
		in: inChecks, tests: between, says: "the lock's TTL is",
	},
	{
		name: "SET jumps the queue",
		what: "whoever takes a free lock by SET has it, though EXISTS says that others wait",
		edits: []edit{{
			"internal/redisstore/replies.go",
			"	if !bytes.HasPrefix(replies, tookAlone) {\n",
			"	if len(replies) < len(tookAlone) || !bytes.HasPrefix(replies, tookAlone[:6]) || !bytes.HasPrefix(replies[7:], tookAlone[7:]) {\n",
		}},
		in: inChecks, tests: between, says: "granted, though another came first",
	},
	{
		name: "EXISTS without the fence",
		what: "whoever takes a free lock by SET does not look for a fence that is ahead of the clock",
		edits: []edit{
			{"internal/redisstore/set.go", `wire.AppendCommand(b, 4), "EXISTS"`, `wire.AppendCommand(b, 3), "EXISTS"`},
			{"internal/redisstore/set.go", "c.keys[3].appendTo(c.keys[2].appendTo(b))", "c.keys[2].appendTo(b)"},
		},
		in: inChecks, tests: between, says: "fence ",
	},
	{
		name: "TIME before SET",
		what: "the fence is the time before the lock was taken",
		edits: []edit{
			{
				"internal/redisstore/set.go",
				"	b = c.keys[0].appendTo(wire.AppendString(wire.AppendCommand(b, 6), \"SET\"))\n",
				"	b = wire.AppendString(wire.AppendCommand(b, 1), \"TIME\")\n	b = c.keys[0].appendTo(wire.AppendString(wire.AppendCommand(b, 6), \"SET\"))\n",
			},
			{
				"internal/redisstore/set.go",
				"	b = c.keys[3].appendTo(c.keys[2].appendTo(b))\n	b = wire.AppendString(wire.AppendCommand(b, 1), \"TIME\")\n",
				"	b = c.keys[3].appendTo(c.keys[2].appendTo(b))\n",
			},
			{ // TIME's reply is read where it was
				"internal/redisstore/replies.go",
				"	if bytes.HasPrefix(replies, replyNil) {\n",
				"	if _, behind, ok := readTime(replies[min(4, len(replies)):]); ok && len(behind) > 9 {\n" +
					"		replies = bytes.Join([][]byte{behind[:9], replies[:len(replies)-len(behind)], behind[9:]}, nil)\n	}\n" +
					"	if bytes.HasPrefix(replies, replyNil) {\n",
			},
		},
		in: inChecks, tests: between, says: "fence ",
	},
	{
		name: "fence by the client's clock",
		what: "the fence is the estimate of the time that SET writes",
		edits: []edit{{
			"internal/redisstore/replies.go",
			"	return clock, decided, nil\n",
			"	return estimate, decided, nil\n",
		}},
		in: inChecks, tests: between, says: "fence ",
	},
	{
		name: "GET is not compared",
		what: "whoever takes a lock by SET has it, though somebody else has it by the time of its fence",
		edits: []edit{{
			"internal/redisstore/replies.go",
			"|| !isSetBy(rest, token, estimate) {",
			"|| len(rest) == 0 {",
		}},
		in: inChecks, tests: between, says: "granted, though another came first",
	},
	{
		name: "lost reply to SET taken for a refusal",
		what: "who has heard nothing of its SET takes the lock for somebody else's, and leaves it behind",
		edits: []edit{{
			"internal/redisstore/set.go",
			"		return store.Answer{}, decided, s.failed(s.unanswered(ctx, err))\n",
			"		if failed := (*wire.Error)(nil); errors.As(err, &failed) && failed.Sent && !failed.Pending {\n			return store.Answer{}, decided, nil\n		}\n" +
				"		return store.Answer{}, decided, s.failed(s.unanswered(ctx, err))\n",
		}},
		in: inChecks, tests: "TestLostReplies/lost_acquire_reply_of_one_who_does_not_wait", says: "of one who does not wait",
	},
	{
		name: "give without compare",
		what: "whoever gives a free lock back deletes the key, also another holder's",
		edits: []edit{{
			"internal/redisstore/lua/give.lua",
			"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n",
			"",
		}},
		in: inChecks, tests: late, says: "the next holder: ",
	},
	{
		name: "give that overlooks the first waiter",
		what: "whoever gives a lock back does not see the mark of whoever has come to wait for it",
		edits: []edit{{
			"internal/redisstore/lua/give.lua",
			"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n",
			"if string.gsub(redis.call('GET', KEYS[1]) or '', ':!', ':~') ~= ARGV[1] then return 0 end\n",
		}},
		in: inChecks, tests: "TestTheFirstWaiterOfALockIsWoken", says: "are handed the lock by its release",
	},
	{
		name: "first waiter without a mark",
		what: "the first who waits for a lock that was taken by SET does not mark it",
		edits: []edit{{
			"internal/redisstore/lua/enter.lua",
			"  if token and (not queue_or_fence",
			"  if false and token and (not queue_or_fence",
		}},
		in: inChecks, tests: "TestTheFirstWaiterOfALockIsWoken", says: "are handed the lock by its release",
	},
	{
		name: "token used again",
		what: "whoever asks for a lock takes the token of the one before who has given up, which is being cleaned up",
		edits: []edit{
			{
				"lockmw/acquire.go",
				"	join, place := store.Try, store.Place{}\n",
				"	join, place := store.Try, store.Place{}\n	if used, ok := usedTokens.LoadAndDelete(c.ref.Key); ok {\n		c.ref.Token = used.(string)\n	}\n",
			},
			{
				"lockmw/residue.go",
				"	if r != noResidue {\n",
				"	if r != noResidue {\n		usedTokens.Store(ref.Key, ref.Token)\n",
			},
			{
				"lockmw/outage.go",
				"// unavailable ends a claim",
				"var usedTokens sync.Map\n\n// unavailable ends a claim",
			},
		},
		in: inMatrix, tests: underLoad, says: "overlap:",
	},
	{
		name: "replies off by one",
		what: "replies that nobody waits for any more are counted out, so the next callers get those of others",
		edits: []edit{{
			"internal/redisstore/wire/conn.go",
			"		c := k.inFlight.first\n		if c == nil || c == k.unsent {\n",
			"		for c := k.inFlight.first; c != nil && c != k.unsent && (c.state == left || c.state == ended); c = k.inFlight.first {\n			k.inFlight.take()\n			k.pool.finish(c, nil)\n		}\n" +
				"		c := k.inFlight.first\n		if c == nil || c == k.unsent {\n",
		}},
		in: inChecks, tests: "TestOthersGetTheirRepliesWhenCallersLeave", says: "got another answer",
	},
	{
		name: "call sent twice",
		what: "a call whose connection breaks is sent again, though it may have been carried out",
		edits: []edit{{
			"internal/redisstore/wire/pool.go",
			"ctx.Err() != nil || Sent(err) {",
			"ctx.Err() != nil {",
		}},
		in: inChecks, tests: "TestLostReplies/lost_release_reply", says: "a false loss",
	},
	{
		name: "release dropped with its connection",
		what: "a release that nobody awaits is not sent again where its connection breaks",
		edits: []edit{{
			"lockmw/release.go",
			"		if !isOver {\n			err = a.run()\n		}\n",
			"",
		}},
		in: inChecks, tests: "TestReleasesThatNobodyAwaits/connections_break", says: "the lock comes free long before its TTL",
	},
	{
		name: "release behind the next call",
		what: "whoever asks for a key does not wait for the release before it, which may arrive later",
		edits: []edit{{
			"internal/redisstore/ops.go",
			"	if s.settle(ctx, r.Key, settleBy(until, began)) {\n		began = time.Now()\n		until = timeToSend(until, began)\n	}\n",
			"",
		}},
		in: inChecks, tests: "TestReleasesThatNobodyAwaits/the_next_one", says: "its own process has the lock still",
	},
}
