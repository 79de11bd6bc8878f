package main

import (
	"crypto/tls"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/lockmw/kit/lockmw"
)

// A remote is the Redis that the flags name.
type remote struct {
	url       string
	namespace string
	cluster   bool
	sentinel  string
	output    string
}

func (r *remote) flags(f *pflag.FlagSet) {
	f.StringVar(&r.url, "redis", "", "`URL` of the Redis; the default is REDIS_URL, or redis://localhost:6379/0")
	f.StringVar(&r.namespace, "namespace", "", "what the Redis keys of locks begin with, as given to lockmw.WithNamespace (default \"lock\")")
	f.BoolVar(&r.cluster, "cluster", false, "the Redis is a node of a Cluster")
	f.StringVar(&r.sentinel, "sentinel", "", "the Redis is a Sentinel, and watches the master of this `NAME`")
	f.StringVarP(&r.output, "output", "o", "text", "text or json")
}

// open returns a Locker, which must be closed, and a function that closes it.
func (r *remote) open() (*lockmw.Locker, func(), error) {
	if r.output != "text" && r.output != "json" {
		return nil, nil, status{statusUsage, fmt.Sprintf("--output is text or json, not %q", r.output)}
	}
	client, err := r.client()
	if err != nil {
		return nil, nil, status{statusUsage, err.Error()}
	}
	opts := []lockmw.Option{lockmw.WithInstance("lockctl")}
	if r.namespace != "" {
		opts = append(opts, lockmw.WithNamespace(r.namespace))
	}
	locks, err := lockmw.New(client, opts...)
	if err != nil {
		_ = client.Close()
		return nil, nil, status{statusUsage, err.Error()}
	}
	return locks, func() {
		_ = locks.Close(ended()) // it holds nothing
		_ = client.Close()
	}, nil
}

// client returns a client for the Redis. The error names no password.
func (r *remote) client() (redis.UniversalClient, error) {
	text := r.url
	if text == "" {
		text = os.Getenv("REDIS_URL")
	}
	if text == "" {
		text = "redis://localhost:6379/0"
	}
	if r.cluster {
		if r.sentinel != "" {
			return nil, fmt.Errorf("--cluster and --sentinel exclude each other")
		}
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, fmt.Errorf("the URL of the Redis is wrong: it is redis://user:password@host:port")
		}
		o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("the URL of the Redis is wrong: it is redis://user:password@host:port/database")
	}
	if r.sentinel == "" {
		return redis.NewClient(o), nil
	}
	var config *tls.Config
	if o.TLSConfig != nil {
		config = o.TLSConfig.Clone()
		config.ServerName = ""
	}
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: r.sentinel, SentinelAddrs: []string{o.Addr}, DB: o.DB,
		Username: o.Username, Password: o.Password, TLSConfig: config,
	}), nil
}
