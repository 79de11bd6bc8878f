package redisstore

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// opTimeout bounds one exchange where the caller gives no tighter bound. The
// client's own defaults (5 s, four tries) outlast most leases.
const opTimeout = time.Second

// renewalConns is the size of the pool that pipelines use. Renewals, and what a
// sender puts together, need a few connections each; but a pool in which that
// many dials failed in a row goes on failing for up to a second after the server
// is back, which a short lease does not survive.
const renewalConns = 256

// ownClient opens a client to the same Redis as the user's. Locks need
// connections that an exhausted pool of the application cannot hold up, no
// retries behind our back (a repeated release would report a false loss), and
// deadlines that are honoured. Addresses, dialer (so Sentinel too), TLS and
// credentials are the user's.
func ownClient(client redis.UniversalClient) (own redis.UniversalClient, cluster bool, err error) {
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return nil, false, fmt.Errorf("client is a nil *redis.Client")
		}
		return redis.NewClient(singleOptions(c.Options())), false, nil
	case *redis.ClusterClient:
		if c == nil {
			return nil, false, fmt.Errorf("client is a nil *redis.ClusterClient")
		}
		if err := readsReplicas(c.Options()); err != nil {
			return nil, false, err
		}
		own := redis.NewClusterClient(clusterOptions(c.Options()))
		own.SetCommandInfoResolver(nil) // it would ask COMMAND, again and again where that is forbidden
		return own, true, nil
	case *redis.Ring:
		return nil, false, fmt.Errorf("client is a *redis.Ring: it moves the keys of a failed shard, " +
			"so one key could have two holders; use a single server, Sentinel or Cluster client")
	case nil:
		return nil, false, fmt.Errorf("client is nil")
	default:
		return nil, false, fmt.Errorf("client is a %T: pass the *redis.Client or *redis.ClusterClient itself, "+
			"locks use connections of their own made from its options", client)
	}
}

func singleOptions(user *redis.Options) *redis.Options {
	o := *user
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = bounded(o.DialTimeout)
	o.ReadTimeout = bounded(o.ReadTimeout)
	o.WriteTimeout = bounded(o.WriteTimeout)
	o.PoolTimeout = opTimeout
	o.PipelinePoolSize = renewalConns
	o.DisableIdentity = true // one round trip less before a renewal on a new connection
	o.Protocol = 2           // nothing is pushed here, for which go-redis looks before each command otherwise
	o.ContextTimeoutEnabled = true
	o.MinIdleConns = 0
	o.MaxActiveConns = 0
	o.Limiter = nil
	o.ClientSideCache = nil
	o.ClientSideCacheConfig = nil
	o.PushNotificationProcessor = nil // belongs to the user's client; ours gets its own
	return &o
}

func clusterOptions(user *redis.ClusterOptions) *redis.ClusterOptions {
	o := *user
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = bounded(o.DialTimeout)
	o.ReadTimeout = bounded(o.ReadTimeout)
	o.WriteTimeout = bounded(o.WriteTimeout)
	o.PoolTimeout = opTimeout
	o.PipelinePoolSize = renewalConns
	o.DisableIdentity = true // one round trip less before a renewal on a new connection
	o.Protocol = 2           // nothing is pushed here, for which go-redis looks before each command otherwise
	o.ContextTimeoutEnabled = true
	o.MinIdleConns = 0
	o.MaxActiveConns = 0
	o.ReadOnly = false // a replica must not answer for its master
	o.RouteByLatency = false
	o.RouteRandomly = false
	o.DisableRoutingPolicies = true // scripts know their key; see also ownClient
	o.PushNotificationProcessor = nil
	return &o
}

// bounded keeps a user's shorter timeout. Options that were in use once hold
// zero or less for "none", which a lock cannot live with.
func bounded(d time.Duration) time.Duration {
	if d <= 0 || d > opTimeout {
		return opTimeout
	}
	return d
}
