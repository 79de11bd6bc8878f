package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// A setUpError says why a connection could not be set up. It has no Unwrap, because
// go-redis would take a server's refusal in it for that of a command.
type setUpError struct {
	fault store.Error
	at    stage // that failed
}

// Error names the stage, the address and the cause.
func (e *setUpError) Error() string { return e.fault.Error() }

// A spoken error is one that a server said.
type spoken string

var _ redis.Error = spoken("")

// Error implements error.
func (s spoken) Error() string { return string(s) }

// RedisError implements redis.Error.
func (spoken) RedisError() {}

// goodbyes begin the refusals after which a server closes the connection. go-redis
// takes them for those of a server that does not know HELLO, and goes on.
var goodbyes = []string{"ERR max number of clients", "DENIED"}

// refusal returns the server's first words if they are a refusal, and else nothing.
func (s *setUp) refusal() spoken {
	if said := s.said.Load(); said != nil {
		if line, _, _ := strings.Cut(*said, "\r\n"); strings.HasPrefix(line, "-") {
			return spoken(line[1:])
		}
	}
	return ""
}

// goodbye returns the refusal with which the server took its leave, or nil.
func (s *setUp) goodbye() error {
	said := s.refusal()
	for _, prefix := range goodbyes {
		if strings.HasPrefix(string(said), prefix) {
			return said
		}
	}
	return nil
}

// failed says what an error of the present stage means for commands. None was sent
// over this connection.
func (s *setUp) failed(err error) *setUpError {
	at := stage(s.stage.Load())
	if errors.Is(err, context.DeadlineExceeded) && s.ctx != nil && s.ctx.Err() != nil {
		err = &tookTooLong{fmt.Errorf("not done within %v: %w", s.dialer.timeout, err)}
	}
	if said := s.refusal(); said != "" && at == greeting && broken(err) {
		err = fmt.Errorf("%w (%w)", said, err)
	}
	var refused *store.Error
	if said, ok := errors.AsType[redis.Error](err); ok && (at == greeting || at == askingRole) {
		refused = classify(said)
		err = refused.Err // which says what to do
	}
	e := store.Error{Err: fmt.Errorf("no connection to %s: %s: %w%s", s.name(), stages[at], err, s.hint(at, err))}
	switch {
	case errors.Is(err, errStoreClosed), errors.Is(err, redis.ErrClosed):
		e.Permanent = true
	case errors.Is(err, errAbandoned):
		if s.era.unheard.Load() >= s.era.abandoned.Load() { // all wait for an answer to a dial
			e.Evidence = store.Silent
		}
	case errors.Is(err, errNewMaster), errors.Is(err, context.Canceled):
	case at == askingSentinels, at == dialling:
		n := notConnected(err)
		e.Permanent = n.Permanent || s.untrusted(err)
		if !e.Permanent {
			e.Evidence = n.Evidence
		}
	case at == encrypting:
		e.Permanent = s.untrusted(err)
		if timedOut(err) {
			e.Evidence = store.Silent
		}
	case at == greeting, at == askingRole:
		switch {
		case refused != nil:
			e.Permanent, e.Evidence = refused.Permanent, refused.Evidence
		case timedOut(err):
			e.Evidence = store.Silent
		case errors.Is(err, errReplica):
			e.Evidence = store.Answered
		}
	}
	return &setUpError{e, at}
}

// pending is the error of a command that cannot wait any longer for a set-up that is
// still under way.
func (s *setUp) pending() *store.Error {
	at, since := stage(s.stage.Load()), time.Since(s.began).Round(time.Millisecond)
	err := &tookTooLong{fmt.Errorf("not done after %v", since)}
	e := &store.Error{Err: fmt.Errorf("no connection to %s yet: %s: %w%s", s.name(), stages[at], err, s.hint(at, err))}
	switch at {
	case askingSentinels, dialling, encrypting, greeting, askingRole:
		e.Evidence = store.Silent
	case askingCredentials, onConnect: // that is not Redis
	}
	return e
}

func (s *setUp) name() string {
	if s.addr == failoverAddr {
		return "the Sentinels' master"
	}
	return s.addr
}

// hint adds a likely reason that err itself does not tell: TLS on one side only, or a proxy
// that closes connections at HELLO.
func (s *setUp) hint(at stage, err error) string {
	config := s.dialer.options.TLSConfig
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return " (the server does not speak TLS on that port)"
	}
	switch {
	case config != nil && timedOut(err) && (at == encrypting || at == dialling && s.dialer.custom != nil):
		return " (a server that does not speak TLS on that port does not answer)"
	case config == nil && at == greeting && s.refusal() == "" && (broken(err) || s.alerted()):
		return " (does the server want TLS on that port, or is there a proxy in between?)"
	}
	return ""
}

// alerted reports whether the server's first words are those of TLS.
func (s *setUp) alerted() bool {
	said := s.said.Load()
	return said != nil && (*said)[0] == tlsAlert
}

// tlsAlert is the first byte of what a TLS server says to a client that does not speak TLS.
const tlsAlert = 0x15

// untrusted reports whether TLS failed in a way that stays until the configuration
// of the client or of the server changes.
func (s *setUp) untrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	// An alert that the other side sends has no type of its own.
	return strings.Contains(err.Error(), "remote error: tls: ")
}

// errNoConnection is a command that was not sent: its time was over, or its caller
// gone, before there was a connection.
var errNoConnection = errors.New("no free connection in time")

// verdict says what an error of go-redis means for the command that met it.
func (d *dialer) verdict(err error) *store.Error {
	if told, ok := errors.AsType[*store.Error](err); ok { // it has been said already
		fault := *told
		return &fault
	}
	if s, ok := errors.AsType[*setUpError](err); ok {
		fault := s.fault
		return &fault
	}
	// A context ends the wait for a connection, never an exchange over one.
	for _, waiting := range [...]error{errNoConnection, redis.ErrPoolTimeout, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, waiting) {
			return d.late(err)
		}
	}
	return classify(err)
}

// late says why there is no connection yet.
func (d *dialer) late(err error) *store.Error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var oldest *setUp
	for s := range d.setUps {
		if oldest == nil || s.began.Before(oldest.began) {
			oldest = s
		}
	}
	switch {
	case oldest != nil:
		return oldest.pending()
	case d.last != nil && time.Since(d.failedAt) < opTimeout:
		fault := d.last.fault
		return &fault
	case errors.Is(err, context.Canceled):
		return &store.Error{Err: err}
	}
	return &store.Error{Err: err, Evidence: store.Silent} // all connections are in use
}
