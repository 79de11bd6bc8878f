package faultproxy

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"math"
	"slices"
	"strings"
)

// Args returns the name and the arguments of a request as it was sent. The
// slices are parts of request. An empty request, which Redis ignores, has none.
func Args(request []byte) [][]byte {
	if bytes.HasPrefix(request, []byte("*")) {
		return elements(request, math.MaxInt)
	}
	return bytes.Fields(request)
}

// Match returns a function that reports whether a request is one of these
// commands, in upper or lower case. Scripts are matched by MatchScript: a name
// such as "DEL" stands in the body of many of them.
func Match(names ...string) func(request []byte) bool {
	return func(request []byte) bool {
		name := commandName(Args(request))
		for _, n := range names {
			if strings.EqualFold(name, n) {
				return true
			}
		}
		return false
	}
}

// Any returns a function that reports whether a request matches one of these.
func Any(matches ...func(request []byte) bool) func(request []byte) bool {
	return func(request []byte) bool {
		return slices.ContainsFunc(matches, func(match func([]byte) bool) bool { return match(request) })
	}
}

// MatchScript returns a function that reports whether a request runs one of these
// scripts by EVAL or EVALSHA. Each is named by its SHA-1 in hexadecimal, by its
// source, or by a part of its source; a part recognises EVAL only, since EVALSHA
// carries no source.
func MatchScript(scripts ...string) func(request []byte) bool {
	hashes := make([]string, len(scripts))
	for i, script := range scripts {
		hashes[i] = sha1Hex(script)
	}
	return func(request []byte) bool {
		args := Args(request)
		if len(args) < 2 {
			return false
		}
		var source, hash string
		switch commandName(args) {
		case "EVALSHA", "EVALSHA_RO":
			hash = string(args[1])
		case "EVAL", "EVAL_RO":
			source = string(args[1])
			hash = sha1Hex(source)
		default:
			return false
		}
		for i, script := range scripts {
			if strings.EqualFold(hash, script) || strings.EqualFold(hash, hashes[i]) || strings.Contains(source, script) {
				return true
			}
		}
		return false
	}
}

// MessageOf returns a function that reports whether the payload of a message begins with
// one of these words and a space.
func MessageOf(words ...string) func(payload []byte) bool {
	return func(payload []byte) bool {
		word, _, found := bytes.Cut(payload, []byte(" "))
		return found && slices.Contains(words, string(word))
	}
}

// sha1Hex returns the name that Redis gives to a script.
func sha1Hex(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// commandName returns the upper-case name of a request, "" of an empty one.
func commandName(args [][]byte) string {
	if len(args) == 0 {
		return ""
	}
	return strings.ToUpper(string(args[0]))
}
