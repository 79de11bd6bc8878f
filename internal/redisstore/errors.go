package redisstore

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// What an error is evidence of, whether the store can be reached. That of an error which wire tells, such as a
// connection that broke, is decided in faults.go. Work that may run without its lock does so for store.Unreachable and
// store.Silent only.
//
//	Unreachable  Nobody listens at the address (connection refused, no such socket),
//	             there is no way to it (host or network unreachable or down), its
//	             host is unknown, or a server says LOADING or CLUSTERDOWN: it cannot
//	             serve anybody yet. See noWay, codes and unserved.
//	Silent       No answer in time: to a dial, to the look-up of a name, to
//	             a command, or for so long that no connection came free.
//	Answered     Anything else that a server says, whatever it refuses.
//	Unclear      The rest. A connection that broke, a server that is not trusted, an
//	             address that is none, a program without free sockets: such an error
//	             tells nothing about the locks, which others may well hold.
//
// MASTERDOWN is Answered. A replica says so that has lost its master: so does a
// former master that has just been demoted, while the new one gives locks.

// noWay are the system's errors for an address that cannot be reached. The last
// three are those of Windows, which has numbers of its own.
var noWay = []error{
	syscall.ECONNREFUSED, syscall.ENOENT, // ENOENT: a Unix socket that is not there
	syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
	syscall.Errno(10061), syscall.Errno(10065), syscall.Errno(10051),
}

// A code is the first word of a server's refusal.
type code struct {
	evidence  store.Evidence // Unclear: Answered, as most
	permanent bool           // until somebody changes the configuration of the server or the client, or the data
	unwritten bool           // it stops a script before its first write, and never after it
}

// codes are those that are known. What other ones refuse may be carried out later.
var codes = map[string]code{
	"LOADING":     {evidence: store.Unreachable},
	"CLUSTERDOWN": {evidence: store.Unreachable},

	"ASK": {}, "BUSY": {}, "MASTERDOWN": {}, "MOVED": {}, "TRYAGAIN": {},

	"MISCONF":    {unwritten: true},
	"NOREPLICAS": {unwritten: true},
	"READONLY":   {unwritten: true},

	"CROSSSLOT": {permanent: true},
	"DENIED":    {permanent: true},
	"ERR":       {permanent: true}, // but see phrases
	"NOAUTH":    {permanent: true},
	"NOPERM":    {permanent: true},
	"NOPROTO":   {permanent: true},
	"OOM":       {permanent: true, unwritten: true},
	"WRONGPASS": {permanent: true},
	"WRONGTYPE": {permanent: true},
}

// unserved is for what a Cluster's node says of a slot that no node serves. It says
// so of that slot alone, and may serve all others: the node is there.
const unserved = "UNSERVED"

// phrases are what says, in a text whose code is ERR, the same as a code. What a
// script's own command is refused comes so.
var phrases = []struct{ says, code string }{
	{"max number of clients", "MAXCLIENTS"},                   // which is no code: it passes
	{"while the cluster is down", "CLUSTERDOWN"},              // what comes before differs from one server to the other
	{"cript attempted to access a slot not served", unserved}, // which is no code: it passes
	{"Hash slot not served", unserved},
	{"ttempted to access a non local key", "TRYAGAIN"},
	{"undeclared keys were accessed during rehashing", "TRYAGAIN"},
	{"Can not execute the command on a stale replica", "MASTERDOWN"},
	{"unauthenticated multibulk", "NOAUTH"}, // more than ten arguments from somebody without a password
	{"ACL failure in script", "NOPERM"},
	{"The user executing the script can't", "NOPERM"},
}

// classify says what a go-redis error means for the command that met it.
// Only what the server answered, or what never reached it, is certain.
func classify(err error) *store.Error {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return refusal(err, reply.Error())
	}
	if credentials(err) {
		return &store.Error{Err: err}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return notConnected(err)
	}
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return &store.Error{Err: err, Evidence: store.Silent}
	case errors.Is(err, redis.ErrClosed), mistrusted(err):
		return &store.Error{Err: err, Permanent: true}
	}
	e := &store.Error{Err: err, Ambiguous: true, Stale: broken(err)}
	switch {
	case unreachable(err):
		e.Evidence = store.Unreachable
	case timedOut(err):
		e.Evidence = store.Silent
	}
	return e
}

// refusal describes what a server answered instead of carrying out a script.
func refusal(err error, text string) *store.Error {
	name := codeOf(text)
	c := codes[name]
	if c.evidence == store.Unclear {
		c.evidence = store.Answered
	}
	// A command inside the script was refused, maybe not its first: what stood
	// before it was carried out.
	midway := strings.Contains(text, "script: ") && !c.unwritten
	return &store.Error{Err: explained(err, name, text), Permanent: c.permanent, Foreign: name == "WRONGTYPE", Ambiguous: midway, Evidence: c.evidence}
}

// codeOfReply returns codeOf of what a server said, or nothing where err is no reply. An error that is
// described already is none: it may wrap the cause with which a caller has left, and that may be a reply to another program's
// command.
func codeOfReply(err error) string {
	if _, described := err.(*store.Error); described { //nolint:errorlint // as it comes from unanswered
		return ""
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return codeOf(reply.Error())
	}
	return ""
}

// codeOf returns the code that a refusal's text has, or that says the same.
func codeOf(text string) string {
	first, rest, _ := strings.Cut(text, " ")
	if strings.HasPrefix(text, "CLUSTERDOWN Hash slot not served") {
		return unserved
	}
	if first != "ERR" || strings.HasPrefix(rest, "unknown ") {
		return first // the latter quotes the arguments of a command, which may be anything
	}
	for _, p := range phrases {
		if strings.Contains(rest, p.says) {
			return p.code
		}
	}
	if strings.HasPrefix(rest, "Error ") { // Redis before 7, and proxies, wrap what a script met
		for word := range strings.FieldsSeq(rest) {
			word = strings.TrimPrefix(word, "-")
			if _, ok := codes[word]; ok && word != "ERR" {
				return word
			}
		}
	}
	return first
}

// notConnected describes a dial that failed: nothing was sent.
func notConnected(err error) *store.Error {
	e := &store.Error{Err: err}
	var name *net.DNSError
	var address *net.AddrError
	var text *net.ParseError
	var network net.UnknownNetworkError
	switch {
	case timedOut(err):
		e.Evidence = store.Silent
	case errors.As(err, &address), errors.As(err, &text), errors.As(err, &network), errors.As(err, &name) && name.Err == "unknown port":
		e.Permanent = true // it is no address
	case name != nil, unreachable(err):
		e.Evidence = store.Unreachable
	}
	return e
}

// unreachable reports whether the network says so: a Dialer of the user's may fail
// with the same number for a reason of its own, such as a file that is not there.
func unreachable(err error) bool {
	op, network := errors.AsType[*net.OpError](err)
	return network && slices.ContainsFunc(noWay, func(no error) bool { return errors.Is(op, no) })
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

// credentials reports whether the application's own credentials provider failed,
// whose servers are not the store.
func credentials(err error) bool {
	return strings.Contains(err.Error(), "failed to resolve credentials: ") ||
		strings.Contains(err.Error(), "to streaming credentials: ") ||
		strings.Contains(err.Error(), "failed to create credentials listener: ")
}

// mistrusted reports whether the two sides did not agree on TLS: then nothing but
// the handshake was sent.
func mistrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record)
}

// broken reports whether a connection ended, rather than stayed silent.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
