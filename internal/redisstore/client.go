package redisstore

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// The Store's own client of go-redis, made from the user's: with the user's addresses and credentials, and with time limits
// that locks can live with.

// opTimeout bounds one exchange where the caller gives no tighter bound. The
// client's own defaults (5 s, four tries) outlast most leases.
const opTimeout = time.Second

// leastTimeout is what a command has left, of opTimeout, that has waited for releases (settleBy). It is time for a new
// connection to a server far away, since the one in hand may be what hangs.
const leastTimeout = opTimeout / 4

// pipelineConns is the size of the pool for go-redis's pipelines, which confirmed takes: one for each
// acquire under way.
const pipelineConns = 256

// ownClient opens a client to the same Redis as the user's, and the dialer that
// makes its connections. Locks need connections that an exhausted pool of the
// application cannot hold up, no retries behind our back (a repeated release would
// report a false loss), and deadlines that are honoured. Addresses, dialer (so
// Sentinel too), TLS and credentials are the user's.
func ownClient(client redis.UniversalClient) (own redis.UniversalClient, d *dialer, err error) {
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return nil, nil, fmt.Errorf("client is a nil *redis.Client")
		}
		if reflect.ValueOf(c).Elem().IsZero() {
			return nil, nil, fmt.Errorf("client is an empty redis.Client: make it with redis.NewClient")
		}
		user := c.Options()
		d := newDialer(user)
		if user.Addr == failoverAddr && d.custom != nil {
			d.followSentinels()
		}
		return redis.NewClient(singleOptions(user, d)), d, nil
	case *redis.ClusterClient:
		if c == nil {
			return nil, nil, fmt.Errorf("client is a nil *redis.ClusterClient")
		}
		if reflect.ValueOf(c).Elem().IsZero() {
			return nil, nil, fmt.Errorf("client is an empty redis.ClusterClient: make it with redis.NewClusterClient")
		}
		user := c.Options()
		if err := refuseReplicas(user); err != nil {
			return nil, nil, err
		}
		d := newDialer(nodeOptions(user))
		own := redis.NewClusterClient(clusterOptions(user, d))
		own.SetCommandInfoResolver(nil) // it would ask COMMAND, again and again where that is forbidden
		if slots := user.ClusterSlots; slots != nil && asksSentinels(slots) {
			d.followSlots(slots, func() { own.ReloadState(d.ctx) })
		}
		return own, d, nil
	case *redis.Ring:
		return nil, nil, fmt.Errorf("client is a *redis.Ring: it moves the keys of a failed shard, " +
			"so one key could have two holders; use a single server, Sentinel or Cluster client")
	case nil:
		return nil, nil, fmt.Errorf("client is nil")
	default:
		return nil, nil, fmt.Errorf("client is a %T: pass the *redis.Client or *redis.ClusterClient itself, "+
			"locks use connections of their own made from its options", client)
	}
}

// singleOptions returns the user's options as our clients need them. They share
// nothing that can change with the user's: go-redis writes into some of it when
// their client connects.
func singleOptions(user *redis.Options, d *dialer) *redis.Options {
	o := *user
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = d.timeout + opTimeout // d bounds it by itself
	o.ReadTimeout = bounded(o.ReadTimeout)
	o.WriteTimeout = bounded(o.WriteTimeout)
	o.PoolTimeout = opTimeout
	o.PipelinePoolSize = pipelineConns
	o.DisableIdentity = true // one round trip less on a new connection
	o.Protocol = 2           // nothing is pushed here, for which go-redis looks before each command otherwise
	o.ContextTimeoutEnabled = true
	o.MinIdleConns = 0
	o.MaxActiveConns = 0
	o.Limiter = nil
	o.ClientSideCache = nil
	o.ClientSideCacheConfig = nil
	o.AutoPipelineOptions = nil
	o.PushNotificationProcessor = nil // belongs to the user's client; ours gets its own
	o.MaintNotificationsConfig = noMaintNotifications()

	// The dialer has done these when a connection comes from it. Credentials that
	// change while a connection of go-redis's is open are told to it by its client;
	// for the others see rotation.
	o.Dialer = d.dial
	o.TLSConfig = nil
	o.OnConnect = nil
	o.ClientName = ""
	o.Username, o.Password = "", ""
	o.CredentialsProvider, o.CredentialsProviderContext = nil, nil
	o.DB = 0
	return &o
}

// apart returns the options for a client to the same server as user's, whose one connection nothing else uses.
func (s *Store) apart(user *redis.Options) *redis.Options {
	o := singleOptions(user, s.dialer)
	o.PoolSize = 1
	return o
}

// clusterOptions is singleOptions for a Cluster.
func clusterOptions(user *redis.ClusterOptions, d *dialer) *redis.ClusterOptions {
	o := *user
	o.Addrs = slices.Clone(o.Addrs)
	if slots := o.ClusterSlots; slots != nil {
		// It must not get a command's context, which is used again. One that has ended asks for what is known alone.
		o.ClusterSlots = func(asks context.Context) ([]redis.ClusterSlot, error) {
			if err := asks.Err(); err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(d.ctx, opTimeout)
			defer cancel()
			return slots(ctx)
		}
	}
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = d.timeout + opTimeout
	o.ReadTimeout = bounded(o.ReadTimeout)
	o.WriteTimeout = bounded(o.WriteTimeout)
	o.PoolTimeout = opTimeout
	o.PipelinePoolSize = pipelineConns
	o.DisableIdentity = true
	o.Protocol = 2
	o.ContextTimeoutEnabled = true
	o.MinIdleConns = 0
	o.MaxActiveConns = 0
	o.ReadOnly = false // a replica must not answer for its master
	o.RouteByLatency = false
	o.RouteRandomly = false
	o.DisableRoutingPolicies = true // scripts know their key; see also ownClient
	o.AutoPipelineOptions = nil
	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = noMaintNotifications()

	o.Dialer = d.dial
	o.TLSConfig = nil
	o.OnConnect = nil
	o.ClientName = ""
	o.Username, o.Password = "", ""
	o.CredentialsProvider, o.CredentialsProviderContext = nil, nil
	return &o
}

// nodeOptions returns what a connection to a Cluster's node is set up with.
func nodeOptions(user *redis.ClusterOptions) *redis.Options {
	return &redis.Options{
		Dialer:                       user.Dialer,
		OnConnect:                    user.OnConnect,
		ClientName:                   user.ClientName,
		Username:                     user.Username,
		Password:                     user.Password,
		CredentialsProvider:          user.CredentialsProvider,
		CredentialsProviderContext:   user.CredentialsProviderContext,
		StreamingCredentialsProvider: user.StreamingCredentialsProvider,
		TLSConfig:                    user.TLSConfig,
		DialTimeout:                  user.DialTimeout,
		ReadTimeout:                  user.ReadTimeout,
		WriteTimeout:                 user.WriteTimeout,
	}
}

// bounded returns the shorter one of a timeout of the user's or the caller's and
// opTimeout. Zero or less is no timeout, which a lock cannot live with: options that
// were in use once hold such.
func bounded(d time.Duration) time.Duration {
	if d <= 0 || d > opTimeout {
		return opTimeout
	}
	return d
}

// failoverAddr is what go-redis has for an address behind Sentinels.
const failoverAddr = "FailoverClient"
