package main

const handed = "TestTicketsPassAmongProcesses"

// tickets are the mistakes in how a lock is handed on.
var tickets = []mutant{
	{
		name: "ticket that works again and again",
		what: "a ticket that was used takes the lock from whoever has it",
		edits: []edit{{
			"internal/redisstore/lua/resume.lua",
			"\nreturn {3, digits(now)}\n",
			"\nredis.call('DEL', KEYS[1])\nstate.holder = nil\nreturn {1, grant(state, now, token, ttl, ''), digits(now)}\n",
		}},
		in: inMatrix, tests: handed, says: "overlap:",
	},
	{
		name: "hand-on that gives the lock back",
		what: "a lock that is handed on is free, for whoever asks next",
		edits: []edit{{
			"internal/redisstore/lua/handon.lua",
			"redis.call('SET', KEYS[1], ticket .. ':'",
			"redis.call('SET', KEYS[1] .. 'x', ticket .. ':'",
		}},
		in: inMatrix, tests: handed, kinds: "connections cut again", says: "went on by the ticket", // of all kinds, the jobs take longer than the limit
	},
	{
		name: "a waiter gets a lock that was handed on",
		what: "whoever asks while a ticket has the lock takes it from that; Resume says that the ticket is spent, as after any use",
		edits: []edit{{
			"internal/redisstore/lua/acquire.lua",
			"-- A lock that one other holds is waited for.\n",
			"if value and string.sub(value, 1, 7) == 'ticket,' then\n  redis.call('DEL', KEYS[1])\n  value = nil\nend\n",
		}},
		in: inMatrix, tests: handed, says: "lock taken from its ticket:",
	},
	{
		name: "ticket that is never spent",
		what: "whoever comes by a ticket that was used is told to wait for its issuer, and never takes the lock itself",
		edits: []edit{{
			"internal/redisstore/lua/resume.lua",
			"\nreturn {3, digits(now)}\n",
			"\nreturn {0, 100, digits(now), '', 0}\n",
		}},
		in: inMatrix, tests: handed, says: "job that was never done:",
	},
}
