package redisstore

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// What is said of a server's refusal, beside the server's own words: what it means for locks, and what to do.

const (
	seeACL = "see the ACL line in lockmw's README"

	// seeUser leads to the rights that some options and tools need besides.
	seeUser = `see "A user for locks" in lockmw's docs/redis.md`

	// isReplica is what to do when the server says that it is one.
	isReplica = "the server is a replica, which cannot keep locks: use the address of its master, " +
		"or redis.NewFailoverClient without ReplicaOnly"

	needsClusterClient = "is a node of a Redis Cluster and has only a part of the keys: use redis.NewClusterClient"
)

// refuseReplicas returns an error for the options of redis.NewFailoverClusterClient
// if they read from replicas: then any of the servers may get a command, and a
// replica can neither keep a lock nor tell of one. For a real Cluster nothing need be
// refused, because locks use a client of their own there that asks masters only.
func refuseReplicas(o *redis.ClusterOptions) error {
	if o.ClusterSlots == nil || !o.ReadOnly && !o.RouteByLatency && !o.RouteRandomly {
		return nil
	}
	return errors.New("client reads from replicas (ReplicaOnly, ReadOnly, RouteByLatency or RouteRandomly), " +
		"which cannot keep locks: give locks a redis.NewFailoverClient without these options")
}

// An explanation is a server's refusal and what it means for locks.
type explanation struct {
	means string
	err   error
}

// Error says what it means, and the refusal's own text.
func (e *explanation) Error() string { return e.means + ": " + oneLine(e.err) }

// Unwrap returns the refusal.
func (e *explanation) Unwrap() error { return e.err }

// oneLine is an error's text in one line. What go-redis says of several Sentinels has a
// line for each. Each is cut where it quotes a command's arguments: they may be a
// script, keys, or a password.
func oneLine(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i], _, _ = strings.Cut(line, ", with args beginning with")
	}
	return strings.Join(slices.Compact(lines), "; ")
}

// rightOf says where the right to run a command is told.
func rightOf(command string) string {
	switch strings.ToUpper(command) {
	case "INFO", "SCAN", "WAIT": // some options and tools need it, and the README's line has not
		return seeUser
	}
	return seeACL
}

// explained adds to a server's refusal what it means for locks, and what to do, as
// far as the refusal itself does not say that.
func explained(err error, code, text string) error {
	var means string
	if text == redis.Nil.Error() && strings.Contains(err.Error(), "all sentinels") {
		return sentinelsSaid(err)
	}
	switch code {
	case "NOAUTH":
		means = "the server wants a password"
	case "WRONGPASS":
		means = "the server refuses the user's name or password: mend them where the client has them from, or on the server with ACL SETUSER"
	case "NOPERM":
		means = "the Redis user lacks a right that locks need, " + seeACL
		if command := commandOf(text); command != "" {
			means = "the Redis user may not run " + command + ", " + rightOf(command)
		}
	case "NOREPLICAS":
		means = "the server has fewer replicas than it wants before anybody may write (min-replicas-to-write): bring them back"
	case "OOM":
		means = "the server's memory is full: raise its maxmemory, or remove other data"
	case "READONLY", "MASTERDOWN":
		means = isReplica
	case "ERR":
		command := commandOf(text)
		switch {
		case strings.Contains(text, "cluster support disabled"):
			means = "the server is no node of a Redis Cluster: use redis.NewClient"
		case strings.Contains(text, "scripting engine"): // Valkey 9.1 and later have Lua in a module
			means = "the server has no Lua, which locks need: load its module"
		case !strings.HasPrefix(strings.ToLower(text), "err unknown "):
			return err
		case command == "EVAL", command == "CLUSTER":
			means = "the server does not know " + command + ", which locks need (is it renamed, or is there a proxy in between? " +
				"A Sentinel does not know it either: use redis.NewFailoverClient)"
		case command == "":
			means = "the server does not know a command, which locks need (is it renamed?)"
		default:
			means = "the server does not know " + command + ", which locks need (is it renamed?)"
		}
	default:
		return err
	}
	return &explanation{means, err}
}

// sentinelsSaid is an error of go-redis's for Sentinels of which none names a master.
func sentinelsSaid(err error) error {
	means := "no Sentinel names the master"
	if errors.Is(err, redis.Nil) {
		means = "a Sentinel does not know the client's MasterName" // redis: nil
	}
	return &explanation{means, err}
}

// otherData adds to a refusal of a script the Redis keys that hold other data than
// a lock's, of those that the command c is about. Redis says in which line of the
// script that was, and the line says which key it uses. Other errors stay as they are.
func otherData(err error, c *command) error {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok || codeOf(reply.Error()) != "WRONGTYPE" {
		return err
	}
	var names []string
	used := keyInLine.FindStringSubmatch(lineOf(reply.Error()))
	ofLock := keyCount
	if c.record != (redisKey{}) {
		ofLock++
	}
	for i, arg := range c.keyArgs() {
		if used == nil && i%ofLock == 0 || used != nil && strconv.Itoa(i%ofLock+1) == used[1] {
			names = append(names, strconv.Quote(arg))
		}
	}
	if names == nil {
		return err
	}
	what := "the Redis key "
	if used == nil {
		what = "a Redis key of the lock "
	}
	means := what + strings.Join(names, " or ") + " holds data of another program: lock under another namespace or prefix"
	return &explanation{means, err}
}

var (
	// Redis says where in a script a command failed, and not always which one it was.
	scriptLine = regexp.MustCompile(`script: ([0-9a-f]{40}), on @user_script:(\d+)`)
	unknown    = regexp.MustCompile(`unknown command '(\w+)'`)
	forbidden  = regexp.MustCompile(`no permissions to run the '([\w|]+)' command`)
	keyInLine  = regexp.MustCompile(`KEYS\[(\d)\]`)
	callInLine = regexp.MustCompile(`redis\.p?call\('(\w+)'(?:, '(\w+)')?`)
)

// textsByHash has the scripts' texts, by the hash that a server names them by.
var textsByHash = sync.OnceValue(func() map[string]string {
	texts := make(map[string]string)
	for _, text := range Scripts() {
		texts[newScript(text).sha] = text
	}
	return texts
})

// commandOf names the command that a refusal is about. Where the refusal names only
// the line of a script, those are all commands in the line. It is empty if the
// refusal names neither.
func commandOf(text string) string {
	for _, says := range []*regexp.Regexp{unknown, forbidden} {
		if name := says.FindStringSubmatch(text); name != nil {
			return strings.ToUpper(strings.ReplaceAll(name[1], "|", " "))
		}
	}
	var commands []string
	for _, call := range callInLine.FindAllStringSubmatch(lineOf(text), -1) {
		command := call[1]
		if command == "PUBSUB" {
			command += " " + call[2]
		}
		commands = append(commands, command)
	}
	return strings.Join(commands, " or ")
}

// lineOf returns the line of a script that a refusal is about; it is empty if the
// refusal does not tell.
func lineOf(text string) string {
	at := scriptLine.FindStringSubmatch(text)
	if at == nil {
		return ""
	}
	number, err := strconv.Atoi(at[2])
	lines := strings.Split(textsByHash()[at[1]], "\n")
	if err != nil || number < 1 || number > len(lines) {
		return ""
	}
	return lines[number-1]
}
