package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// A cast is everybody who comes while the shops are open. They make little work for the
// machine and a lot for the locks: most of the time somebody has one and others wait.
type cast struct {
	story *story
	crowd *crowd
	redis *redis.Client
	locks *lockmw.Locker // the operator's
	db    *database
	asked atomic.Int64
	tally tally
}

// A part is what some of the visitors do, again and again.
type part struct {
	name   string
	who    int // how many
	method string
	path   func() string
	pause  time.Duration // between two visits, on average
}

// fixed is a path that does not change.
func fixed(path string) func() string { return func() string { return path } }

// hot returns a path about one of three orders that everybody wants.
func hot(format string) func() string {
	return func() string { return fmt.Sprintf(format, rand.N(3)+1) }
}

// parts are the visitors. The numbers are such that something waits for every lock here
// and there, while all of it takes a few percent of one core.
var parts = []part{
	{"payer", 9, http.MethodPost, hot("/orders/%d/pay?hold=500ms"), 500 * time.Millisecond},
	{"passer-by", 2, http.MethodPost, func() string { return fmt.Sprintf("/orders/%d/pay", 100+rand.N(900)) }, time.Second},
	{"returner", 1, http.MethodPost, hot("/orders/%d/refund"), time.Second},
	{"courier", 2, http.MethodPost, hot("/orders/%d/ship?hold=100ms"), 1500 * time.Millisecond},
	{"reader", 3, http.MethodGet, fixed("/shelves/a?hold=400ms"), 600 * time.Millisecond},
	{"counter", 1, http.MethodPost, fixed("/shelves/a?hold=500ms"), 3 * time.Second},
	{"printer", 5, http.MethodPost, fixed("/printers/1?hold=500ms"), 500 * time.Millisecond},
	{"stocker", 2, http.MethodPost, fixed("/stock/a?hold=400ms"), 800 * time.Millisecond},
	{"pricer", 1, http.MethodPost, fixed("/prices/today?hold=20ms"), time.Second},
	{"prankster", 1, http.MethodPost, fixed("/orders/" + strings.Repeat("9", 600) + "/pay"), 4 * time.Second}, // no key is that long
}

func newCast(s *story, db *database, shops []string) (*cast, error) {
	visitors := 2 + clicks // the holder that hangs, the one that loses, and a buyer's clicks
	for _, p := range parts {
		visitors += p.who
	}
	crowd, err := newCrowd(options{clients: visitors * len(shops), shops: len(shops)}, shops)
	if err != nil {
		return nil, err
	}
	opts, err := redisOptions(db.addr)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(opts)
	locks, err := lockmw.New(client, lockmw.WithInstance("operator"))
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &cast{story: s, crowd: crowd, redis: client, locks: locks, db: db}, nil
}

// play has all visitors come until ctx ends, and waits until they are gone.
func (c *cast) play(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range parts {
		for range p.who {
			all.Go(func() {
				for c.visit(ctx, p.name, p.method, p.path()); pause(ctx, p.pause/2+rand.N(p.pause)) == nil; {
					c.visit(ctx, p.name, p.method, p.path())
				}
			})
		}
	}
	all.Go(func() { c.hang(ctx) })
	all.Go(func() { c.operate(ctx) })
	all.Go(func() { c.buy(ctx) })
	all.Go(func() { c.sum(ctx) })
	all.Go(func() { c.story.watch(ctx, c.db) })
	all.Wait()

	c.crowd.leave()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), locksClose)
	defer cancel()
	_ = c.locks.Close(ending) // it holds none
	_ = c.redis.Close()
}

// visit sends one request to one of the shops, and counts its answer. It returns the code
// of a refusal, and which shop it was.
func (c *cast) visit(ctx context.Context, who, method, path string) (code string, shop int) {
	return c.visitWith(ctx, who, method, path, make(http.Header))
}

// visitWith is visit with a header.
func (c *cast) visitWith(ctx context.Context, who, method, path string, header http.Header) (code string, shop int) {
	shop = rand.N(len(c.crowd.shops))
	header[requestIDHeader] = []string{fmt.Sprintf("%s-%d", who, c.asked.Add(1))}
	a, err := c.crowd.send(ctx, method, c.crowd.shops[shop]+path, header)
	if err == nil {
		c.tally.add(a)
	}
	return a.code(), shop + 1
}

const (
	hangs     = 14 * reportTTL // a report, which counts as stuck after ten
	reportGap = 10 * time.Second
)

// hang has a report written again and again that takes far too long.
func (c *cast) hang(ctx context.Context) {
	c.story.sayf("The nightly report begins, and hangs for %v. Its lock's TTL is %v, so after ten of them it counts as stuck, and is renewed all the time.", hangs, reportTTL)
	for {
		c.visit(ctx, "reporter", http.MethodPost, "/reports/nightly?hold="+hangs.String())
		if pause(ctx, reportGap) != nil {
			return
		}
	}
}

const (
	clicks = 3 // at the same time
	buyGap = 2 * time.Second
)

// buy buys a ticket again and again. The buyer clicks several times at once, and once more when the answer is there: each time
// the ticket is sold once.
func (c *cast) buy(ctx context.Context) {
	for pause(ctx, buyGap) == nil {
		key := fmt.Sprintf("ticket-%d", c.asked.Add(1))
		click := func() {
			c.visitWith(ctx, "buyer", http.MethodPost, "/tickets?buyer=ann&hold=300ms", http.Header{"Idempotency-Key": {key}})
		}
		var all sync.WaitGroup
		for range clicks {
			all.Go(click)
		}
		all.Wait()
		click()
	}
}

const (
	gift      = "13"                   // an order whose payment takes too long for the operator
	impatient = 2 * time.Second        // when the operator takes its lock
	giftGap   = 16 * time.Second       // between two of them
	giftFirst = 500 * time.Millisecond // to the first one
)

// operate takes a lock from its holder by force, again and again, so that one is lost.
func (c *cast) operate(ctx context.Context) {
	for wait := giftFirst; pause(ctx, wait) == nil; wait = giftGap {
		var paid sync.WaitGroup
		paid.Go(func() {
			code, shop := c.visit(ctx, "giver", http.MethodPost, "/orders/"+gift+"/pay?hold=8s")
			if code == lockmw.CodeLost {
				c.story.sayf("Shop %d has noticed that it lost the lock of order %s: its payment has ended with 503, %s.", shop, gift, lockmw.CodeLost)
			}
		})
		if pause(ctx, impatient) == nil {
			c.takeAway(ctx, "order:"+gift)
		}
		paid.Wait()
	}
}

func (c *cast) takeAway(ctx context.Context, key string) {
	info, err := c.locks.Inspect(ctx, key)
	if err != nil || len(info.Holders) == 0 {
		return // Redis is away, or the payment was refused; the story tells of the one
	}
	h := info.Holders[0]
	if c.locks.ForceRelease(ctx, key) == nil {
		c.story.sayf("The operator takes the lock of %s by force from %s, which has had it for %v (%s).", key, h.Instance, round(h.Age), h.Note)
	}
}

const sumEvery = 15 * time.Second

// sum says how the visitors fared, again and again.
func (c *cast) sum(ctx context.Context) {
	for pause(ctx, sumEvery) == nil {
		c.story.sayf("In %v: %s.", sumEvery, c.tally.take())
	}
}

// A tally counts what the shops have answered.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = make(map[string]int)
	}
	t.counts[a.code()]++
}

// take returns what was counted, in words, and begins anew.
func (t *tally) take() string {
	t.mu.Lock()
	counts := t.counts
	t.counts = nil
	t.mu.Unlock()
	said := []string{fmt.Sprintf("%d visitors had their lock", counts[""])}
	for _, of := range []struct{ code, words string }{
		{lockmw.CodeBusy, "found it held"},
		{lockmw.CodeWaitTimeout, "waited in vain"},
		{lockmw.CodeKeyInvalid, "named no order"},
		{lockmw.CodeBackendUnavailable, "were refused because Redis was away"},
		{lockmw.CodeLost, "lost it"},
	} {
		if n := counts[of.code]; n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, of.words))
		}
	}
	return strings.Join(said, ", ")
}
