package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A crowd is all clients. Each has its own shop and pays there again and
// again, without a break.
type crowd struct {
	options
	shops []string // URLs
	http  *http.Client
}

// answerTime is how long a client waits for an answer: longer than any shop
// has it wait for a lock.
const answerTime = 90 * time.Second

// dialsAtOnce keeps a crowd that arrives in the same moment from overflowing
// the shops' listen queues, which are short on some systems.
const dialsAtOnce = 64

func newCrowd(o options, shops []string) (*crowd, error) {
	perShop, err := connections(o, openFiles())
	if err != nil {
		return nil, err
	}
	if total := perShop * o.shops; total < o.clients {
		fmt.Printf("Note: few files may be open here (ulimit -n); the clients share %d connections.\n\n", total)
	}
	dials := make(chan struct{}, dialsAtOnce)
	var dialer net.Dialer
	return &crowd{options: o, shops: shops, http: &http.Client{
		Timeout: answerTime,
		Transport: &http.Transport{
			MaxConnsPerHost:     perShop,
			MaxIdleConnsPerHost: perShop,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials <- struct{}{}
				defer func() { <-dials }()
				return dialer.DialContext(ctx, network, addr)
			},
		},
	}}, nil
}

// leave closes the clients' connections.
func (c *crowd) leave() { c.http.CloseIdleConnections() }

// connections returns how many connections the clients may have to one shop:
// one for each client, or fewer where the system does not allow as many open
// files. Then some clients wait until another's connection is free.
func connections(o options, openFiles int) (int, error) {
	const (
		others  = 64                           // files of the program that are not counted here
		perShop = ledgerConns + redisConns + 8 // what a shop opens to the program, and its pipes
	)
	want := (o.clients + o.shops - 1) / o.shops
	room := (openFiles-others)/o.shops - perShop
	if room < 1 {
		return 0, fmt.Errorf("%d shops need more open files than %d, which is all this system allows (ulimit -n)", o.shops, openFiles)
	}
	return min(want, room), nil
}

// tryLock asks each shop for a lock once, on an order of its own, so that a
// Redis that cannot be used is told before a thousand requests wait for it.
func (c *crowd) tryLock(ctx context.Context) error {
	for i, shop := range c.shops {
		a, err := c.post(ctx, fmt.Sprintf("%s/orders/%d/refund", shop, 1001+i))
		if err == nil && a.status != http.StatusOK {
			err = a
		}
		if err != nil {
			return fmt.Errorf("shop %d cannot lock: %w", i+1, err)
		}
	}
	return nil
}

// pay has all clients pay at path, and says what they saw. It returns early
// with a reason if ctx ends or a shop cannot be reached.
func (c *crowd) pay(ctx context.Context, name, path string) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := result{name: name, want: c.payments(), waits: make([]time.Duration, c.payments())}
	var answers, refused atomic.Int64
	var failed failures
	stop := follow(os.Stderr, name, r.want, &answers)
	start := time.Now()

	client := func(i int) {
		url := c.shops[i%len(c.shops)] + path
		for j := range c.rounds {
			asked := time.Now()
			a, err := c.post(ctx, url)
			if err != nil {
				cancel(err)
				return
			}
			r.waits[i*c.rounds+j] = time.Since(asked)
			answers.Add(1)
			switch a.status {
			case http.StatusOK:
			case http.StatusConflict, http.StatusServiceUnavailable:
				refused.Add(1)
			default:
				failed.add(a)
			}
		}
	}
	var clients sync.WaitGroup
	for i := range c.clients {
		clients.Go(func() { client(i) })
	}
	clients.Wait()

	r.took = time.Since(start)
	stop()
	r.refused, r.failed, r.failure = int(refused.Load()), failed.count, failed.first
	return r, context.Cause(ctx)
}

// failures counts the answers that are neither a payment nor a refusal.
type failures struct {
	mu    sync.Mutex
	count int
	first error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if f.first == nil {
		f.first = err
	}
}

// An answer is a shop's. It is an error where something else was expected.
type answer struct {
	status int
	body   string
}

// Error gives the status and, of a refusal by the lock, its code.
func (a answer) Error() string {
	text := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	if code := a.code(); code != "" {
		return text + ", " + code
	}
	return strings.TrimSpace(text + " " + a.body)
}

// code is that of a refusal by the lock, and empty otherwise.
func (a answer) code() string {
	var problem struct{ Code string }
	_ = json.Unmarshal([]byte(a.body), &problem) // other answers are no JSON
	return problem.Code
}

func (c *crowd) post(ctx context.Context, url string) (answer, error) {
	return c.send(ctx, http.MethodPost, url, nil)
}

func (c *crowd) send(ctx context.Context, method, url string, header http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return answer{}, err
	}
	if header != nil {
		req.Header = header
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, reason(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return answer{}, reason(ctx, err)
	}
	return answer{resp.StatusCode, string(body)}, nil
}

// reason is why ctx ended, if that is what err is about.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		return context.Cause(ctx)
	}
	return err
}
