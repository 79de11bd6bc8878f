package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// Replies that come after a batch's caller has left are nobody's: the race detector sees
// whether they are looked at.
func TestABatchWhoseCallerLeaves(t *testing.T) {
	proxy := faultproxy.Start(t, redistest.Real(t).Addr())
	p := open(t, redistest.NewClient(t, proxy.Addr()), redistest.Prefix(t))
	r := p.ref(time.Minute)
	noteGrant(&r, p.get(r, store.Try))
	p.idle()
	proxy.Delay(faultproxy.Both, 100*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	batch := []store.Renewal{{Ref: r}}
	done := make(chan struct{})
	go func() { defer close(done); p.Renew(ctx, batch) }()
	await.Until(t, "it is under way", func() bool { return p.single.Open() == 1 })
	cancel()
	p.idle() // before anything that orders the batch's end before its replies
	<-done
	if e := store.AsError(batch[0].Err); !errors.Is(e, context.Canceled) || !e.Pending {
		t.Errorf("Renew = %v, pending %v, want %v and pending", e, e.Pending, context.Canceled)
	}
}
