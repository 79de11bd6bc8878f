package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// How a connection is set up before the first command is sent over it: dialled, encrypted, authenticated, and given to the
// user's OnConnect. setuperror.go says what it means where that fails.

// A stage of setting up a connection, in their order.
type stage int32

const (
	askingSentinels stage = iota
	dialling
	encrypting
	askingCredentials
	greeting
	onConnect
	askingRole
)

// stages say what is under way, for people.
var stages = [...]string{
	askingSentinels:   "asking the Sentinels for the master",
	dialling:          "dialling",
	encrypting:        "the TLS handshake",
	askingCredentials: "the credentials provider",
	greeting:          "HELLO, AUTH, SELECT and CLIENT SETNAME",
	onConnect:         "OnConnect",
	askingRole:        "ROLE",
}

// A setUp is the setting up of one connection.
type setUp struct {
	dialer        *dialer
	network, addr string
	era           *era
	ctx           context.Context
	began         time.Time
	ping          *pinging    // that it is for, or nil
	left          atomic.Bool // nobody waits for it, or it is over
	leftAt        stage       // if nobody waited for it; written before left
	stage         atomic.Int32
	said          atomic.Pointer[string] // the server's first words, see preamble
}

// errSetUp ends go-redis's set-up of a connection: it is the Store's now.
var errSetUp = errors.New("the connection is set up")

// errNoConn is a mistake of the user's Dialer.
var errNoConn = errors.New("the client's Dialer returned neither a connection nor an error")

// errReplica is what a connection leads to that should lead to the master.
var errReplica = errors.New("the server is a replica: the Sentinels' client leads there, see ReplicaOnly, " +
	"or the server has just lost its master's place")

// run carries out the set-up.
func (s *setUp) run() (_ *conn, failed *setUpError) {
	defer func() {
		if v := recover(); v != nil {
			failed = s.failed(fmt.Errorf("panic: %v", v))
		}
	}()
	d := s.dialer
	raw, err := s.dial()
	if err != nil {
		return nil, s.failed(err)
	}
	c := &conn{Conn: raw, dialer: d, addr: s.addr}
	if err := d.keep(c, s.era); err != nil {
		_ = c.Close()
		return nil, s.failed(err)
	}
	stop := context.AfterFunc(s.ctx, func() { _ = c.Close() })
	s.enter(greeting)
	if err := s.greet(raw); err != nil {
		if ended := context.Cause(s.era.ctx); ended != nil { // what err says comes from that
			err = ended
		}
		stop()
		_ = c.Close()
		return nil, s.failed(err)
	}
	if !stop() {
		return nil, s.failed(context.Cause(s.ctx))
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		_ = c.Close()
		return nil, s.failed(err)
	}
	s.goesOn(true) // with the first command
	return c, nil
}

func (s *setUp) enter(to stage) {
	s.stage.Store(int32(to))
	s.goesOn(to.waitsForServer())
}

// waitsForServer reports whether the server has to answer for the stage to end.
func (at stage) waitsForServer() bool {
	return at != askingSentinels && at != askingCredentials && at != onConnect
}

// goesOn tells the pings that the set-up is for what it waits for now.
func (s *setUp) goesOn(server bool) {
	if s.ping != nil {
		s.ping.Waits(server)
		return
	}
	for _, p := range s.dialer.pingsNow() {
		if p.shares {
			p.Waits(server)
		}
	}
}

// dial opens the connection.
func (s *setUp) dial() (net.Conn, error) {
	d := s.dialer
	forServer := true // what takes time from now on is the server
	if d.first != nil {
		s.enter(askingSentinels)
		forServer = d.first(s.ctx)
	}
	if forServer {
		s.enter(dialling)
	}
	if d.custom != nil {
		c, err := d.custom(s.ctx, s.network, s.addr)
		if c == nil && err == nil {
			err = errNoConn
		}
		return c, err
	}
	return dialDefault(s.ctx, s.network, s.addr, d.options.TLSConfig, bounded(d.options.DialTimeout), func() { s.enter(encrypting) })
}

// greet has a client of go-redis's, made for this alone, carry out the set-up over
// c. OnConnect is its last step, and an error there keeps the client from sending
// anything else.
func (s *setUp) greet(c net.Conn) error {
	o := s.dialer.options
	p := &preamble{Conn: c, setUp: s}
	o.Dialer = func(context.Context, string, string) (net.Conn, error) { return p, nil }
	s.watchCredentials(&o)
	users := o.OnConnect
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if err := s.goodbye(); err != nil {
			return err
		}
		if users != nil {
			s.enter(onConnect)
			if err := users(ctx, cn); err != nil {
				return err
			}
		}
		if s.dialer.role {
			s.enter(askingRole)
			if err := s.askRole(ctx, cn); err != nil {
				return err
			}
		}
		p.done.Store(true)
		return errSetUp
	}
	client := redis.NewClient(&o)
	err := client.Ping(s.ctx).Err()
	_ = client.Close()
	if p.done.Load() {
		return nil
	}
	if err == nil {
		err = errReply // OnConnect ends every set-up
	}
	return err
}

// watchCredentials has the user's credentials provider in o enter its stage while it
// is asked.
func (s *setUp) watchCredentials(o *redis.Options) {
	if ask := o.CredentialsProviderContext; ask != nil {
		o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
			s.enter(askingCredentials)
			name, password, err := ask(ctx)
			if err == nil {
				s.enter(greeting)
			}
			return name, password, err
		}
	} else if ask := o.CredentialsProvider; ask != nil {
		o.CredentialsProvider = func() (string, string) {
			s.enter(askingCredentials)
			defer s.enter(greeting)
			return ask()
		}
	}
	if stream := o.StreamingCredentialsProvider; stream != nil {
		o.StreamingCredentialsProvider = subscribing{stream, s}
	}
}

// askRole returns an error if the server says that it is a replica, or does not say
// just now. One that does not let us ask is asked no more: it refuses writes if it is
// one.
func (s *setUp) askRole(ctx context.Context, cn *redis.Conn) error {
	if s.dialer.noRole.Load() {
		return nil
	}
	reply, err := cn.Do(ctx, "role").Slice()
	if refused, ok := errors.AsType[redis.Error](err); ok && classify(refused).Permanent {
		s.dialer.noRole.Store(true)
		return nil
	}
	if err != nil {
		return err
	}
	if len(reply) > 0 && reply[0] == "slave" {
		return errReplica
	}
	return nil
}

// A subscribing is a streaming credentials provider that enters its stage of the
// set-up while it is asked.
type subscribing struct {
	auth.StreamingCredentialsProvider
	setUp *setUp
}

// Subscribe implements auth.StreamingCredentialsProvider.
func (s subscribing) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.setUp.enter(askingCredentials)
	c, unsubscribe, err := s.StreamingCredentialsProvider.Subscribe(l)
	if err == nil {
		s.setUp.enter(greeting)
	}
	return c, unsubscribe, err
}

// setUpOptions returns what go-redis needs of o to set up a connection.
func setUpOptions(o *redis.Options) redis.Options {
	return redis.Options{
		Addr:                         o.Addr,
		OnConnect:                    o.OnConnect,
		ClientName:                   o.ClientName,
		Username:                     o.Username,
		Password:                     o.Password,
		CredentialsProvider:          o.CredentialsProvider,
		CredentialsProviderContext:   o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		DB:                           o.DB,
		TLSConfig:                    o.TLSConfig.Clone(),
		DialTimeout:                  bounded(o.DialTimeout),
		ReadTimeout:                  bounded(o.ReadTimeout),
		WriteTimeout:                 bounded(o.WriteTimeout),
		ContextTimeoutEnabled:        true,
		Protocol:                     2,
		DisableIdentity:              true,
		MaxRetries:                   -1,
		DialerRetries:                1,
		PoolSize:                     1,
		PipelinePoolSize:             -1,
		ReadBufferSize:               4096,
		WriteBufferSize:              4096,
		MaintNotificationsConfig:     noMaintNotifications(),
	}
}

// A preamble is the connection as the client sees it that greet makes. To close it
// does nothing, because the connection outlives that client. It keeps the server's
// first words, which give the reason if the connection then breaks.
type preamble struct {
	net.Conn
	setUp *setUp
	done  atomic.Bool
}

// saidMost is how much of the server's first words is kept: a line of refusal.
const saidMost = 256

// Close implements net.Conn.
func (p *preamble) Close() error { return nil }

// Read implements net.Conn.
func (p *preamble) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 && stage(p.setUp.stage.Load()).waitsForServer() {
		p.setUp.dialer.heard(p.setUp.addr)
		p.setUp.goesOn(true) // for the rest, or the next reply
	}
	if n > 0 && p.setUp.said.Load() == nil {
		said := string(b[:min(n, saidMost)])
		p.setUp.said.Store(&said)
	}
	return n, err
}

// Write implements net.Conn. A server with too many clients says so, reads
// nothing, and closes the connection: then writing fails, but its words are there.
// So does one that refuses the client's certificate, since in TLS 1.3 the client is done
// with the handshake before it.
func (p *preamble) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if err != nil && p.setUp.said.Load() == nil {
		var said [saidMost]byte
		_ = p.Conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, alert := p.Read(said[:]); alerts(alert) {
			err = alert
		}
	}
	return n, err
}

// alerts reports whether err is what the other side of TLS has said.
func alerts(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
