package model

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file is the store as a Redis of its own, for the simulator: any number of keys, by the same commands and scripts.

// A Keyspace is a Redis without connections. Its methods are called by one goroutine at a time.
type Keyspace struct {
	// Skew is how far its clock is ahead of the time that it is told.
	Skew time.Duration
	// Listens says whether anybody listens to a channel, and Publish sends a text to those who do.
	Listens func(channel string) bool
	Publish func(channel, text string)

	lua    *interpreter
	keys   map[string]*entry
	loaded map[string]bool // scripts, by their hashes
}

// Replies that are not what a script returns.
type (
	// A Status is a reply like OK.
	Status string
	// A Failure is a reply that is an error.
	Failure string
)

// NewKeyspace returns one that is empty. Close it.
func NewKeyspace() *Keyspace {
	return &Keyspace{
		Listens: func(string) bool { return false }, Publish: func(string, string) {},
		lua: newInterpreter(), keys: make(map[string]*entry), loaded: make(map[string]bool),
	}
}

// Close frees what it needs to run scripts.
func (k *Keyspace) Close() { k.lua.close() }

// Do carries out a command at a moment. The reply is nil, an int64, a string, a Status, a Failure, or a []any of them.
// It reports false for a command that is not about keys, scripts or the time: that is its caller's.
func (k *Keyspace) Do(now time.Time, args []string) (reply any, ok bool) {
	srv := &server{many: k.keys, now: now.Add(k.Skew).UnixMicro(), inMillis: true, listens: k.Listens}
	switch command := strings.ToUpper(args[0]); command {
	case "EVAL", "EVALSHA":
		if len(args) < 3 || len(args) < 3+int(number(args[2])) {
			return Failure("ERR wrong number of arguments"), true
		}
		reply = k.eval(srv, command == "EVAL", args[1], args[3:3+number(args[2])], args[3+number(args[2]):])
	case "SCRIPT":
		reply = k.script(args[1:])
	case "FLUSHALL":
		clear(k.keys)
		reply = Status("OK")
	case "KEYS":
		reply = k.names(srv, args[1])
	case "TIME":
		reply = srv.call(args)
	case "SET", "GET", "DEL", "EXISTS", "PTTL", "PEXPIRE", "ZADD", "ZREM", "ZSCORE", "ZCARD", "ZCOUNT", "ZRANGE", "ZPOPMIN", "HGET", "HSET", "HDEL", "HGETALL":
		if len(args) < 2 {
			return Failure("ERR wrong number of arguments"), true
		}
		if reply = srv.call(args); reply == "OK" && command == "SET" {
			reply = Status("OK")
		}
	default:
		return nil, false
	}
	for _, p := range srv.published {
		k.Publish(p.channel, p.text)
	}
	maps.DeleteFunc(k.keys, func(_ string, e *entry) bool { return e.kind == absent })
	if text, failed := reply.(errReply); failed {
		return Failure(text), true
	}
	return reply, true
}

// eval runs a script that is given by its text, or by its hash.
func (k *Keyspace) eval(srv *server, byText bool, what string, names, args []string) any {
	hash := what
	if byText {
		hash = hashOf(what)
		if err := compileOnce(hash, what); err != nil {
			return errReply("ERR " + err.Error())
		}
		k.loaded[hash] = true
	}
	if !k.loaded[hash] {
		return errReply("NOSCRIPT No matching script. Please use EVAL.")
	}
	s, _ := byHash.Load(hash)
	return k.lua.run(srv, s.(*script), names, args)
}

// script is SCRIPT LOAD, EXISTS and FLUSH.
func (k *Keyspace) script(args []string) any {
	switch strings.ToUpper(args[0]) {
	case "LOAD":
		hash := hashOf(args[1])
		if err := compileOnce(hash, args[1]); err != nil {
			return errReply("ERR " + err.Error())
		}
		k.loaded[hash] = true
		return hash
	case "EXISTS":
		known := []any{}
		for _, hash := range args[1:] {
			known = append(known, int64(bit(k.loaded[hash])))
		}
		return known
	case "FLUSH":
		clear(k.loaded)
		return Status("OK")
	default:
		return errReply("ERR no such command: SCRIPT " + args[0])
	}
}

// names returns the names of the keys that match a pattern, in their order.
func (k *Keyspace) names(srv *server, pattern string) any {
	names := []any{}
	for _, name := range slices.Sorted(maps.Keys(k.keys)) {
		if matches, err := path.Match(pattern, name); err != nil || !matches || srv.entry(name).kind == absent {
			continue
		}
		names = append(names, name)
	}
	return names
}

// byHash has the scripts that were compiled, of all Keyspaces.
var byHash sync.Map

func compileOnce(hash, text string) error {
	if _, known := byHash.Load(hash); known {
		return nil
	}
	all, err := Compile(map[string]string{"script": text})
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	byHash.LoadOrStore(hash, all["script"])
	return nil
}

// hashOf is how Redis names a script.
func hashOf(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
