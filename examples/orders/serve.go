package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// announce says where everything is, and what to try while the shops are open.
func announce(w io.Writer, o options, shops []string, ledger string, db *database) {
	first, last := shops[0], shops[len(shops)-1]
	fmt.Fprintf(w, `%d shops are open, and customers come to all of them. Redis: %s.

  shops     %s
  console   %s   who has which lock, who waits, live
  metrics   %s, and of each other shop

%s
Try in another terminal:

  # Pay order 7 at one shop, and take ten seconds for it.
  curl -X POST '%s/orders/7/pay?hold=10s' &

  # Meanwhile at another shop: a refund does not wait, it gets its 409 at once.
  curl -i -X POST %[8]s/orders/7/refund

  # Another order is free. A second payment of the same waits in line.
  curl -X POST %[8]s/orders/8/pay
  curl -X POST %[8]s/orders/7/pay

  # What the ledger holds.
  curl %[9]s/accounts/7
%[10]s
Ctrl-C ends it. This is what goes on:

`, len(shops), db, strings.Join(shops, "  "), first+consolePath, first+metricsPath, scrapeHint(o, shops), first, last, ledger, outageHint(db))
}

// scrapeHint says how a Prometheus gets the metrics.
func scrapeHint(o options, shops []string) string {
	const graph = `  The board for Grafana is dashboards/lockmw.json, the alerts are dashboards/alerts.yaml.
`
	if o.addr == defaultAddr && len(shops) == 4 {
		return `  A Prometheus has them from here, in the folder of the repository:
    prometheus --config.file=dashboards/prometheus.yml --storage.tsdb.path="$(mktemp -d)"
` + graph
	}
	targets := make([]string, len(shops))
	for i, url := range shops {
		targets[i] = `"` + strings.TrimPrefix(url, "http://") + `"`
	}
	return fmt.Sprintf(`  A Prometheus has them with dashboards/prometheus.yml, where these are its targets:
    [%s]
`, strings.Join(targets, ", ")) + graph
}

// outageHint says how to see what happens without Redis.
func outageHint(db *database) string {
	if db.pid == "" {
		return ""
	}
	return fmt.Sprintf(`
  # Stop Redis, and let it go on. (With kill alone another one starts after %v.)
  kill -STOP %[2]s; sleep 20; kill -CONT %[2]s
`, redisAway, db.pid)
}

// A story is what happens while the shops are open, in words.
type story struct {
	mu sync.Mutex
	w  io.Writer
}

// sayf prints a line, with the time.
func (s *story) sayf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.w, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// perform has everybody come, and tells what happens, until ctx ends.
func (s *story) perform(ctx context.Context, db *database, shops []string) error {
	c, err := newCast(s, db, shops)
	if err != nil {
		return err
	}
	c.play(ctx)
	return nil
}

// watch says when Redis goes away and when it is back, until ctx ends.
func (s *story) watch(ctx context.Context, db *database) {
	var since time.Time // zero: it answers
	for missed := 0; pause(ctx, 500*time.Millisecond) == nil; {
		asked := time.Now()
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		err := db.ping(short)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !since.IsZero():
			s.sayf("Redis answers again, after %v. Locks are taken as before.", round(time.Since(since)))
			since, missed = time.Time{}, 0
		case err == nil:
			missed = 0
		case since.IsZero():
			if missed++; missed == 2 {
				since = asked
				s.sayf("Redis does not answer (%s). What wants a lock is refused with 503, except for prices, which fail open: they are fetched without it.", reasonOf(err))
			}
		}
	}
}

// reasonOf is what is wrong, in short.
func reasonOf(err error) string {
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // go-redis returns it as it is
		return "no answer in time"
	}
	return err.Error()
}
