package redisstore

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// Refusals that last until somebody changes the server's or the client's
// configuration, or the data. Everything else that a server answers (LOADING,
// READONLY, CLUSTERDOWN, BUSY, …) passes by itself.
var permanentPrefixes = []string{
	"WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPERM", "CROSSSLOT", "OOM", "NOPROTO", "DENIED",
}

// classify says what a go-redis error means for the question that met it.
// Only what the server answered, or what never reached it, is certain.
func classify(err error) *store.Error {
	if refusal, ok := errors.AsType[redis.Error](err); ok {
		text := refusal.Error()
		// A command inside the script was refused, maybe not its first: what
		// stood before it was carried out.
		midway := strings.Contains(text, "script: ")
		if strings.Contains(text, "unauthenticated multibulk") {
			// Redis reads no more than ten arguments from somebody who has
			// not given a password, and says so in place of NOAUTH.
			return &store.Error{Err: fmt.Errorf("NOAUTH: the server wants a password: %w", err), Permanent: true, Reach: store.Answered}
		}
		return &store.Error{Err: err, Permanent: permanent(text), Ambiguous: midway, Reach: reach(text)}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &store.Error{Err: err, Reach: store.Away}
	}
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return &store.Error{Err: err}
	case errors.Is(err, redis.ErrClosed):
		return &store.Error{Err: err, Permanent: true}
	}
	e := &store.Error{Err: err, Ambiguous: true, Stale: broken(err)}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		e.Reach = store.Silent
	}
	return e
}

// notThere are the refusals of a server that cannot serve anybody yet. Every
// other reply comes from a server that can be reached.
var notThere = []string{"LOADING", "CLUSTERDOWN"}

// reach says what a server's refusal tells about whether it can be reached.
func reach(text string) store.Reach {
	for _, prefix := range notThere {
		if strings.HasPrefix(text, prefix) {
			return store.Away
		}
	}
	return store.Answered
}

func permanent(text string) bool {
	for _, prefix := range permanentPrefixes {
		// Redis before 7 and some proxies wrap a script's error in a text of
		// their own.
		if strings.HasPrefix(text, prefix) || strings.Contains(text, " "+prefix+" ") {
			return true
		}
	}
	if strings.HasPrefix(text, "ERR max number of clients") {
		return false
	}
	return strings.HasPrefix(text, "ERR")
}

// broken reports whether a connection ended, rather than stayed silent.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
