package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// A target is what a command looks at: the locks of a namespace in a Redis.
type target struct {
	url       string // empty: that of REDIS_URL
	namespace string
	cluster   bool   // the URL is that of a node of a Cluster
	sentinel  string // the URL is that of a Sentinel, which watches the master of this name; empty: it is none
	tls       tlsFlags
}

// open returns a Locker for the target, and a function that closes it.
func (t *target) open() (*lockmw.Locker, func(), error) {
	client, err := t.client()
	if err != nil {
		return nil, nil, misused("%v", err)
	}
	locks, err := lockmw.New(client, lockmw.WithInstance("lockctl"), seam.LookInto(t.namespace).(lockmw.Option))
	if err != nil {
		_ = client.Close()
		return nil, nil, misused("%s", said(err))
	}
	return locks, func() {
		_ = locks.Close(ended()) // it holds nothing
		_ = client.Close()
	}, nil
}

// ofServices returns an error if no service can have the namespace.
func (t *target) ofServices() error {
	if of, in := strings.CutSuffix(t.namespace, redisstore.ShadowEnd); in {
		return misused("in namespace %q lie the locks of policies in shadow: services read the settings of %q", t.namespace, of)
	}
	return nil
}

// ended returns a context that has ended: Close waits for nobody.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// where says where nothing was found.
func (t *target) where() string {
	return fmt.Sprintf(" in namespace %q; is --namespace right?", t.namespace)
}

// client returns a client for the Redis of the target. The error names no password.
func (t *target) client() (redis.UniversalClient, error) {
	text := t.url
	if text == "" {
		text = os.Getenv("REDIS_URL")
	}
	if text == "" {
		text = "redis://localhost:6379/0"
	}
	if t.cluster {
		if t.sentinel != "" {
			return nil, errors.New("--cluster and --sentinel exclude each other: leave out the one that this Redis is not")
		}
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, errors.New("the URL of the Redis is wrong: it is redis://user:password@host:port")
		}
		o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
		if o.TLSConfig, err = t.tls.of(o.TLSConfig); err != nil {
			return nil, err
		}
		return redis.NewClusterClient(o), nil
	}
	if t.sentinel != "" {
		return t.watched(text)
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, errors.New("the URL of the Redis is wrong: it is redis://user:password@host:port/database")
	}
	if o.TLSConfig, err = t.tls.of(o.TLSConfig); err != nil {
		return nil, err
	}
	return redis.NewClient(o), nil
}

// watched returns a client for the master that Sentinels know by the target's name for it. What a URL has no
// place for is among its parameters: who one is to the Sentinels, and where others are.
func (t *target) watched(text string) (redis.UniversalClient, error) {
	wrong := errors.New("the URL of the Sentinel is wrong: it is redis://user:password@host:port/database?sentinel_username=…&sentinel_password=…&addr=other:port")
	u, err := url.Parse(text)
	if err != nil {
		return nil, wrong
	}
	q := u.Query()
	o := &redis.FailoverOptions{
		DialerRetries:    1, // with more, doctor ends before a Sentinel that cannot be reached is given up, and does not say why
		MasterName:       t.sentinel,
		SentinelUsername: q.Get("sentinel_username"), SentinelPassword: q.Get("sentinel_password"), SentinelAddrs: q["addr"],
	}
	for _, parameter := range []string{"sentinel_username", "sentinel_password", "addr"} {
		q.Del(parameter)
	}
	u.RawQuery = q.Encode()
	server, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, wrong
	}
	o.SentinelAddrs = append([]string{server.Addr}, o.SentinelAddrs...)
	o.Username, o.Password, o.DB = server.Username, server.Password, server.DB
	if server.TLSConfig != nil {
		o.TLSConfig = server.TLSConfig.Clone()
		o.TLSConfig.ServerName = "" // each server's own
	}
	if o.TLSConfig, err = t.tls.of(o.TLSConfig); err != nil {
		return nil, err
	}
	return redis.NewFailoverClient(o), nil
}
