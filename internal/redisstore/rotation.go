package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9/auth"
)

// Credentials that change while connections are open, as those of a cloud provider do: connections are replaced by new ones.

// rotationPause is how long connections are kept at least after others were replaced,
// however often the credentials change.
const rotationPause = time.Second

// A rotation hears from the user's streaming credentials provider when there are new
// credentials, and has the connections that commands take replaced: they were
// authenticated when they were set up, with the credentials of that time. go-redis sees
// to its own by itself.
//
// It takes the provider's place where a connection is set up. So it has subscribed before
// the first credentials are used, and misses none.
type rotation struct {
	provider auth.StreamingCredentialsProvider
	dialer   *dialer
	hears    atomic.Bool   // it has subscribed
	news     chan struct{} // one: there are new credentials

	mu     sync.Mutex
	latest pair // by the provider, last
}

// A pair is what a server wants to know of a user.
type pair struct{ name, password string }

var (
	_ auth.StreamingCredentialsProvider = (*rotation)(nil)
	_ auth.CredentialsListener          = (*rotation)(nil)
)

func newRotation(provider auth.StreamingCredentialsProvider, d *dialer) *rotation {
	return &rotation{provider: provider, dialer: d, news: make(chan struct{}, 1)}
}

// Subscribe implements auth.StreamingCredentialsProvider. Until it has succeeded once it
// subscribes the rotation, and not l: the provider returns the same credentials. l is of
// no use after its connection is set up.
func (r *rotation) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	if r.hears.Load() {
		return r.provider.Subscribe(l)
	}
	c, unsubscribe, err := r.provider.Subscribe(r) // the same listener counts once, if several connections are set up
	if err != nil {
		return nil, nil, err
	}
	r.dialer.atClose(func() {
		if unsubscribe != nil {
			_ = unsubscribe()
		}
	})
	r.learn(c, false)
	if r.hears.CompareAndSwap(false, true) {
		r.dialer.running.Go(r.run)
	}
	return c, nil, nil
}

// OnNext implements auth.CredentialsListener.
func (r *rotation) OnNext(c auth.Credentials) {
	if c == nil || !r.learn(c, true) {
		return
	}
	select {
	case r.news <- struct{}{}:
	default: // what came before is not dealt with yet
	}
}

// OnError implements auth.CredentialsListener. The connections stay as they are; what
// that means for them is the server's to say.
func (r *rotation) OnError(error) {}

// learn notes the credentials that the provider tells, and reports whether they differ
// from the last. Those that are not news are older than any news.
func (r *rotation) learn(c auth.Credentials, news bool) (differ bool) {
	var now pair
	now.name, now.password = c.BasicAuth()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !news && r.latest != (pair{}) {
		return false
	}
	differ = r.latest != now
	r.latest = now
	return differ
}

// run has connections replaced until the Store is closed.
func (r *rotation) run() {
	for {
		select {
		case <-r.news:
		case <-r.dialer.ctx.Done():
			return
		}
		r.dialer.retire()
		select {
		case <-time.After(rotationPause):
		case <-r.dialer.ctx.Done():
			return
		}
	}
}
