package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

//go:embed lua/queue.lua
var queueLua string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/renew.lua
var renewLua string

// A script is sent by its hash, and by its text where the server does not
// know the hash (after a restart, a fail-over or SCRIPT FLUSH). redis.Script
// would do the same, but leaves no room for the markers of once.
type script struct {
	text, sha string
}

// The queue's functions stand in front of every script, so that the facts
// about it (keys, life times, who is next) exist once.
var (
	acquireScript = newScript(acquireLua)
	releaseScript = newScript(releaseLua)
	renewScript   = newScript(renewLua)
)

func newScript(body string) *script {
	text := queueLua + "\n" + body
	sum := sha1.Sum([]byte(text)) // Redis names scripts by SHA-1; nothing secret is in it
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}
