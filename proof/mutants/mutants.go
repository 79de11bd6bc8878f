package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// An edit replaces a piece of a file of the root module that stands there exactly
// once.
type edit struct{ file, old, new string }

// A mutant is a mistake that lock libraries make, and what must notice it.
type mutant struct {
	name  string
	what  string
	edits []edit
	tests string // of package matrix or checks
	kinds string // of faults, as PROOF_KINDS; all without it
	times int    // how often each of these is done, as PROOF_TIMES; once without it
	in    string // that package
	says  string // a part of what the failing test says
}

// The packages of the proof that notice mistakes, and a test of each.
const (
	inMatrix  = "matrix"
	inChecks  = "checks"
	underLoad = "TestHoldersDoNotOverlapWhileRedisKeepsItsWord" // faults while processes take turns
)

// mutants are the mistakes in what scripts and leases do. Those in the way to Redis are
// in native.go, those in how a lock passes on within a process in tenure.go, those in how it is handed on
// in tickets.go, and those in answers in answers.go.
var mutants = []mutant{
	{
		name: "release without compare",
		what: "whoever releases deletes the key, also another holder's",
		edits: []edit{{
			"internal/redisstore/lua/release.lua",
			"local value = redis.call('GET', KEYS[1])\n",
			"local value = redis.call('GET', KEYS[1])\nif value and string.sub(value, 1, 1) ~= '*' then token = string.match(value, '^[^:]*') end\n",
		}},
		in: inChecks, tests: late, says: "the next holder: ",
	},
	{
		name: "SETNX, then EXPIRE",
		what: "the key gets its TTL by a second command",
		edits: []edit{
			{
				"internal/redisstore/lua/acquire.lua",
				"redis.call('SET', KEYS[1], token .. ':' .. now_text, 'NX', 'GET', 'PX', ARGV[2])",
				"redis.call('SET', KEYS[1], token .. ':' .. now_text, 'NX', 'GET')",
			},
			{
				"internal/redisstore/ops.go",
				"	a, err = readAnswer(reply)\n	if err == nil {\n		s.noteClock",
				"	a, err = readAnswer(reply)\n	time.Sleep(50 * time.Millisecond) // a slow way to Redis\n	s.client.PExpire(ctx, s.keys(r.Key)[0], r.TTL)\n	if err == nil {\n		s.noteClock",
			},
		},
		in: inMatrix, tests: underLoad, says: "key without TTL:",
	},
	{
		name: "validity counted after the reply",
		what: "a lease counts from when the answer came, not from when the question was sent",
		edits: []edit{{
			"lockmw/acquire.go",
			"promise{instantOf(asked), ref.TTL}",
			"promise{now(), ref.TTL}",
		}},
		in: inMatrix, tests: "TestHolderBehindSlowRepliesIsToldInTime", says: "context done before the key can expire",
	},
	{
		name: "renewal counted after the reply",
		what: "a renewed lease counts from when the answer came, not from when the renewal was sent",
		edits: []edit{{
			"lockmw/renewal.go",
			"promise{instantOf(sent), r.TTL}",
			"promise{now(), r.TTL}",
		}},
		in: inMatrix, tests: "TestHolderBehindSlowRepliesIsToldInTime", says: "context done before the key can expire",
	},
	{
		name: "renewal bounded by the new TTL",
		what: "while a renewal is under way the lease is trusted for as long as the renewal would give it",
		edits: []edit{{
			"lockmw/renewal.go",
			"	ref.TTL = max(t.ttl, time.Until(t.stayTill()))\n",
			"	ref.TTL = max(t.ttl, time.Until(t.stayTill()))\n	t.promise.since = now()\n",
		}},
		in: inMatrix, tests: underLoad, says: "overlap:",
	},
	{
		name: "renewal that sets if absent",
		what: "a renewal makes a lock anew that is gone",
		edits: []edit{{
			"internal/redisstore/lua/renew.lua",
			"local value = redis.call('GET', KEYS[1])\n",
			"if tonumber(ARGV[2]) then redis.call('SET', KEYS[1], token, 'NX', 'PX', ARGV[2]) end\nlocal value = redis.call('GET', KEYS[1])\n",
		}},
		in: inMatrix, tests: "TestRenewalNeverCreatesALock", says: "0 come back",
	},
	{
		name: `acquire without "already mine"`,
		what: "an acquire that is sent again after a lost reply takes its own token for somebody else's",
		edits: []edit{
			{
				"internal/redisstore/lua/acquire.lua",
				"\nif state.holder == token then\n",
				"\nif false then\n",
			},
			{
				"internal/redisstore/lua/acquire.lua",
				"\n  and string.sub(value, 1, #token + 1) ~= token .. ':' and value ~= token then\n",
				"\n  then\n",
			},
		},
		in: inChecks, tests: "TestLostReplies/lost_acquire_reply$", says: "the lock was ours after",
	},
}

// writeOverlay writes the list of files that go build -overlay takes.
func writeOverlay(to string, files map[string]string) error {
	list, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return err
	}
	return os.WriteFile(to, list, 0o600)
}

// overlay writes the mutated files to a folder, and the list of them that go
// build -overlay takes: the files of root stay as they are.
func (m mutant) overlay(root, dir string) (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range m.edits {
		path := filepath.Join(root, filepath.FromSlash(e.file))
		from := path
		if done, ok := files[path]; ok {
			from = done
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return nil, fmt.Errorf("%s: %q stands %d times in %s, want once: the code has changed, and the mutant must follow", m.name, e.old, n, e.file)
		}
		if e.old == e.new {
			return nil, fmt.Errorf("%s: an edit of %s changes nothing", m.name, e.file)
		}
		to := filepath.Join(dir, strings.ReplaceAll(e.file, "/", "_"))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return nil, err
		}
		files[path] = to
	}
	return files, nil
}
