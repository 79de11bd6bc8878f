package engines

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

type ours struct {
	clients []redis.UniversalClient
	locks   *lockmw.Locker
}

func openOurs(at Redis, options []lockmw.Option) (_ Engine, err error) {
	e := &ours{}
	switch at.Kind {
	case Cluster:
		e.clients = append(e.clients, redis.NewClusterClient(&redis.ClusterOptions{Addrs: at.Addrs, MaintNotificationsConfig: quiet()}))
	case Sentinel:
		e.clients = append(e.clients, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: at.Master, SentinelAddrs: at.Addrs,
		}))
	default:
		for _, addr := range at.Addrs {
			e.clients = append(e.clients, narrowed(addr, at.Buffer))
		}
	}
	if at.Kind == Quorum {
		e.locks, err = lockmw.NewQuorum(e.clients, options...)
	} else {
		e.locks, err = lockmw.New(e.clients[0], options...)
	}
	if err != nil {
		return nil, errors.Join(err, e.closeClients())
	}
	return e, nil
}

// narrowed opens a client whose connections take so many bytes before a write waits;
// with 0 it is like any other.
func narrowed(addr string, buffer int) *redis.Client {
	if buffer == 0 {
		return client(addr)
	}
	return redis.NewClient(&redis.Options{
		Addr: addr, MaintNotificationsConfig: quiet(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if tcp, ok := conn.(*net.TCPConn); ok {
				err = tcp.SetWriteBuffer(buffer)
			}
			return conn, err
		},
	})
}

func (e *ours) closeClients() (err error) {
	for _, c := range e.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (e *ours) Acquire(ctx context.Context, ask Ask) (Hold, error) {
	_, lease, err := e.locks.Acquire(ctx, ask.Key, policy(ask))
	if err != nil {
		return nil, err
	}
	return lease, nil
}

func (e *ours) Resume(ctx context.Context, ticket string, ask Ask) (Hold, error) {
	_, lease, err := e.locks.Resume(ctx, ticket, policy(ask))
	if err != nil {
		return nil, err
	}
	return lease, nil
}

func (e *ours) Discard(ctx context.Context, ticket string) error { return e.locks.Discard(ctx, ticket) }

func (e *ours) Do(ctx context.Context, key string, f lockmw.Flight, work func(Hold) (string, error)) (answer string, shared bool, err error) {
	return lockmw.Do(ctx, e.locks, key, f, func(ctx context.Context) (string, error) {
		lease, _ := lockmw.FromContext(ctx)
		return work(lease)
	})
}

func (e *ours) Resolve(ctx context.Context, key, id string, how lockmw.Resolution) error {
	return e.locks.Resolve(ctx, key, id, how)
}

func policy(ask Ask) lockmw.Policy {
	p := lockmw.Policy{TTL: ask.TTL, Wait: ask.Wait, Permits: ask.Permits}
	if ask.Shared {
		p.Mode = lockmw.Shared
	}
	return p
}

func (e *ours) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(e.locks.Close(ctx), e.closeClients())
}
