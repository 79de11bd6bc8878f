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
		in: inMatrix, tests: handed, says: "went on by the ticket",
	},
}
