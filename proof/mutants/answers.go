package main

const forAll = "TestAnAnswerIsOneForAll"

// answers are the mistakes in how an answer is kept, and given to all who ask.
var answers = []mutant{
	{
		name: "work that is not noted",
		what: "with Uncertain the work begins though nothing is noted of it, and is done again if its process dies",
		edits: []edit{{
			"internal/redisstore/lua/recall.lua",
			"    redis.call('SET', KEYS[6], table.concat({'begun'",
			"    redis.call('SET', KEYS[6] .. 'x', table.concat({'begun'",
		}},
		in: inMatrix, tests: forAll, says: "work done again:",
	},
	{
		name: "note that stays",
		what: "with Uncertain work that says that nothing was done stays noted as begun",
		edits: []edit{{
			"internal/redisstore/lua/keep.lua",
			"  elseif begun then\n    redis.call('DEL', KEYS[6])\n",
			"",
		}},
		in: inMatrix, tests: forAll, says: "told that nobody knows of work that ended well",
	},
	{
		name: "answer for any fingerprint",
		what: "an answer is given to whoever asks under its key, also to another request",
		edits: []edit{{
			"lockmw/calls.go",
			"	case found.Fingerprint != c.of.fingerprint:\n",
			"	case found.Begun() && found.Fingerprint != c.of.fingerprint:\n",
		}},
		in: inMatrix, tests: forAll, says: "answer to another request",
	},
	{
		name: "answer of a lock that was lost",
		what: "with RunAgain an answer is kept also if its work has lost the lock, in the place of that of the next one",
		edits: []edit{{
			"internal/redisstore/lua/keep.lua",
			"(own or begun)",
			"(own or begun or ARGV[11] == '')",
		}},
		in: inMatrix, tests: forAll, kinds: "RunAgain: (worker stopped|partition|requests arrive after)", times: 6, says: "different answers:",
	},
	{
		name: "answer that is not retained",
		what: "an answer is given only to those who asked before it was kept",
		edits: []edit{{
			"internal/redisstore/lua/keep.lua",
			"made_now(ARGV[8])",
			"made_now(0)",
		}},
		in: inMatrix, tests: forAll, says: "answer not given again:",
	},
}
