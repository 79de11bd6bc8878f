package redisstore

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

const (
	seeACL = "see the ACL line in lockmw's README"

	// isReplica is what to do when the server says that it is one.
	isReplica = "the server is a replica, which cannot keep locks: use the address of its master, " +
		"or redis.NewFailoverClient without ReplicaOnly"

	needsClusterClient = "is a node of a Redis Cluster and has only a part of the keys: use redis.NewClusterClient"
)

// readsReplicas refuses the options of a client that Sentinels lead, if it reads from
// replicas: what go-redis makes of that looks like a Cluster, in which any of the
// servers may get a command, and a replica can neither keep a lock nor tell of one.
// A Cluster's own client is made to ask masters only.
func readsReplicas(o *redis.ClusterOptions) error {
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

// Error says what it means, and the refusal's own text up to where that quotes the
// command's arguments: a script, and keys.
func (e *explanation) Error() string {
	text, _, _ := strings.Cut(e.err.Error(), ", with args beginning with")
	return e.means + ": " + text
}

// Unwrap returns the refusal.
func (e *explanation) Unwrap() error { return e.err }

// explained adds to a server's refusal what it means for locks, and what to do, as
// far as the refusal itself does not say that.
func explained(err error, code, text string) error {
	var means string
	switch code {
	case "NOAUTH":
		means = "the server wants a password"
	case "NOPERM":
		means = "the Redis user lacks a right that locks need, " + seeACL
		if command := commandOf(text); command != "" {
			means = "the Redis user may not run " + command + ", " + seeACL
		}
	case "READONLY", "MASTERDOWN":
		means = isReplica
	case "ERR":
		if !strings.HasPrefix(strings.ToLower(text), "err unknown ") {
			return err
		}
		command := commandOf(text)
		if command == "" {
			command = "a command"
		}
		means = "the server does not know " + command + ", which locks need (is it renamed?)"
	default:
		return err
	}
	return &explanation{means, err}
}

var (
	// Redis says where in a script a command failed, and not always which one it was.
	scriptLine = regexp.MustCompile(`script: ([0-9a-f]{40}), on @user_script:(\d+)`)
	unknown    = regexp.MustCompile(`unknown command '(\w+)'`)
	callInLine = regexp.MustCompile(`redis\.p?call\('(\w+)'(?:, '(\w+)')?`)
)

// textsByHash are the scripts' texts.
var textsByHash = sync.OnceValue(func() map[string]string {
	texts := make(map[string]string)
	for _, text := range Scripts() {
		texts[newScript(text).sha] = text
	}
	return texts
})

// commandOf names the command that a refusal is about, or those that stand in the
// same line of a script; it is empty if the refusal does not tell.
func commandOf(text string) string {
	if name := unknown.FindStringSubmatch(text); name != nil {
		return strings.ToUpper(name[1])
	}
	at := scriptLine.FindStringSubmatch(text)
	if at == nil {
		return ""
	}
	number, err := strconv.Atoi(at[2])
	lines := strings.Split(textsByHash()[at[1]], "\n")
	if err != nil || number < 1 || number > len(lines) {
		return ""
	}
	var commands []string
	for _, call := range callInLine.FindAllStringSubmatch(lines[number-1], -1) {
		command := call[1]
		if command == "PUBSUB" {
			command += " " + call[2]
		}
		commands = append(commands, command)
	}
	return strings.Join(commands, " or ")
}
