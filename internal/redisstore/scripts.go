package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/lock.lua
var lockLua string

//go:embed lua/queue.lua
var queueLua string

//go:embed lua/enter.lua
var enterLua string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/releaseto.lua
var releaseToLua string

//go:embed lua/recall.lua
var recallLua string

//go:embed lua/keep.lua
var keepLua string

//go:embed lua/made.lua
var madeLua string

//go:embed lua/resolve.lua
var resolveLua string

//go:embed lua/note.lua
var noteLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/handon.lua
var handOnLua string

//go:embed lua/resume.lua
var resumeLua string

//go:embed lua/all.lua
var allLua string

//go:embed lua/inspect.lua
var inspectLua string

//go:embed lua/kept.lua
var keptLua string

//go:embed lua/force.lua
var forceLua string

//go:embed lua/give.lua
var giveLua string

//go:embed lua/onekey.lua
var oneKeyLua string

//go:embed lua/change.lua
var changeLua string

//go:embed lua/check.lua
var checkLua string

//go:embed lua/rights.lua
var rightsLua string

//go:embed lua/write.lua
var writeLua string

// A script is sent by its hash, and by its text where the server does not
// know the hash (after a restart, a fail-over or SCRIPT FLUSH). redis.Script
// would do the same, but leaves no room for the markers of once.
type script struct {
	text, sha string
}

// A script includes what it shares with others, so that the facts about a lock and its
// queue (keys, life times, who is next) exist once: the text of lock.lua, enter.lua,
// queue.lua or made.lua takes the place of its line, such as "-- include lock". The line stands where the part is needed first: Redis makes the
// functions anew with each call, which costs a microsecond that most calls can do without.
var include = strings.NewReplacer(
	"-- include lock\n", lockLua,
	"-- include enter\n", enterLua,
	"-- include queue\n", queueLua,
	"-- include made\n", madeLua,
)

var (
	acquireScript   = newScript(acquireLua)
	releaseScript   = newScript(releaseLua)
	releaseToScript = newScript(releaseToLua)
	recallScript    = newScript(recallLua + acquireLua)
	keepScript      = newScript(keepLua + releaseLua)
	keepToScript    = newScript(keepLua + releaseToLua)
	resolveScript   = newScript(resolveLua)
	noteScript      = newScript(noteLua)
	renewScript     = newScript(renewLua)
	handOnScript    = newScript(handOnLua)
	resumeScript    = newScript(resumeLua)
	allScript       = newScript(allLua)
	inspectScript   = newScript(inspectLua)
	keptScript      = newScript(keptLua)
	forceScript     = newScript(forceLua)
	giveScript      = newScript(giveLua)
	oneKeyScript    = newScript(oneKeyLua)
	changeScript    = newScript(changeLua)
	checkScript     = newScript(checkLua)
	rightsScript    = newScript(rightsLua)
	writeScript     = newScript(writeLua)
)

func newScript(body string) *script {
	text := include.Replace(body)
	sum := sha1.Sum([]byte(text)) // Redis names scripts by SHA-1; nothing secret is in it
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// scripts are all of them, by the names of their files.
var scripts = map[string]*script{
	"acquire": acquireScript, "release": releaseScript, "releaseto": releaseToScript, "renew": renewScript,
	"recall": recallScript, "keep": keepScript, "keepto": keepToScript, "resolve": resolveScript, "note": noteScript,
	"handon": handOnScript, "resume": resumeScript, "all": allScript, "inspect": inspectScript, "kept": keptScript, "force": forceScript, "give": giveScript,
	"onekey": oneKeyScript, "change": changeScript, "check": checkScript, "rights": rightsScript, "write": writeScript,
}

// Scripts returns the texts of the scripts by the names of their files, for
// tools that recognise them on the wire.
func Scripts() map[string]string {
	texts := make(map[string]string, len(scripts))
	for name, script := range scripts {
		texts[name] = script.text
	}
	return texts
}
