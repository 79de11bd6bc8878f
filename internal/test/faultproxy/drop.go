package faultproxy

import (
	"slices"
	"strings"
)

// rule is one call of DropReplies.
type rule struct {
	left     int // guarded by Proxy.mu
	match    func(request []byte) bool
	keepOpen bool
	part     func(length int) int // how much of the reply passes; nil: nothing
}

// DropOption changes what happens when a reply is dropped.
type DropOption func(*rule)

// KeepOpen leaves the connection open after its reply was dropped, but nothing
// passes on it any more, in either direction: a later reply would be taken for
// the missing one. Without it the connection is closed.
func KeepOpen() DropOption {
	return func(r *rule) { r.keepOpen = true }
}

// Partly has the first bytes of the reply pass, as many as part returns for the
// length of all, but never all of them. It is called for each reply anew, and may run
// concurrently with itself.
func Partly(part func(length int) int) DropOption {
	return func(r *rule) { r.part = part }
}

// DropReplies makes the next n requests for which match returns true lose their
// replies: each is handed to the server, the server's reply is swallowed, and
// then the connection is closed. What the client sent behind such a request on
// the same connection does not reach the server. A request whose connection ends
// for another reason before its reply came is not counted: another one will lose
// its reply in its place.
//
// A nil match takes every request, the handshake of a new connection included.
// SUBSCRIBE and its relatives are never matched, since they are answered by push
// messages, which pass. match gets the request as it was sent (see Args), may run
// concurrently with itself and must not call the proxy.
//
// A new call takes the place of an earlier one; n = 0 ends it.
func (p *Proxy) DropReplies(n int, match func(request []byte) bool, opts ...DropOption) {
	r := &rule{left: n, match: match}
	for _, opt := range opts {
		opt(r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = r
}

// Dropped returns how many replies DropReplies has swallowed since New.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// choose counts a request that is about to be forwarded and returns the rule
// under which its reply is to be dropped, or nil.
func (p *Proxy) choose(request []byte, name string, droppable bool) *rule {
	p.mu.Lock()
	p.commands[name]++
	r := p.rule
	p.mu.Unlock()
	if r == nil || !droppable || r.match != nil && !r.match(request) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r != p.rule || r.left <= 0 {
		return nil
	}
	r.left--
	return r
}

func (p *Proxy) noteDropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
}

func (p *Proxy) giveBack(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.left++
}

// expectation is what the server still owes a connection: one reply, or the
// confirmations of one SUBSCRIBE or UNSUBSCRIBE.
type expectation struct {
	rule     *rule // not nil: drop the reply
	confirms bool
	left     int  // confirmations to come; < 0: unknown, as many as there are subscriptions
	seen     bool // at least one has come
}

// expectations of one connection, in the order of its requests.
type expectations struct {
	list       []expectation
	subscribed bool // a SUBSCRIBE was sent, so arrays may be messages (RESP2)
}

// expect returns what the server owes for a request with so many arguments.
func expect(name string, args int) expectation {
	if !slices.Contains(confirmations, strings.ToLower(name)) {
		return expectation{}
	}
	if args == 0 {
		args = -1 // UNSUBSCRIBE from everything
	}
	return expectation{confirms: true, left: args}
}

// What the server calls the confirmations of SUBSCRIBE and its relatives, which
// bear the same names.
var confirmations = []string{"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"}

var messages = []string{"message", "pmessage", "smessage"}

func (e *expectations) add(x expectation) {
	e.list = append(e.list, x)
	e.subscribed = e.subscribed || x.confirms
}

// answer takes note of what came from the server and returns the rule under
// which it is to be dropped, or nil.
func (e *expectations) answer(f frame) *rule {
	what := e.pushed(f)
	if slices.Contains(confirmations, what) {
		e.confirm()
		return nil
	}
	if what != "" {
		return nil
	}
	for len(e.list) > 0 {
		x := e.list[0]
		e.list = e.list[1:]
		if !x.confirms {
			return x.rule
		}
		if isError := f.kind == '-' || f.kind == '!'; isError && !x.seen {
			return nil // the SUBSCRIBE itself was refused
		}
	}
	return nil
}

// pushed returns the first word of a push message, "" of a reply.
func (e *expectations) pushed(f frame) string {
	if f.kind != '>' && (f.kind != '*' || !e.subscribed) {
		return ""
	}
	word := "push"
	if first := elements(f.bytes, 1); len(first) == 1 {
		word = string(first[0])
	}
	if f.kind == '*' && !slices.Contains(confirmations, word) && !slices.Contains(messages, word) {
		return "" // the reply to a PING, for example
	}
	return word
}

func (e *expectations) confirm() {
	if len(e.list) == 0 || !e.list[0].confirms {
		return
	}
	x := &e.list[0]
	x.seen = true
	if x.left--; x.left == 0 {
		e.list = e.list[1:]
	}
}
