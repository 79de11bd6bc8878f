// Package demotest does to an example what its comment says to do with curl.
package demotest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/examples/internal/demo"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

const (
	work  = 700 * time.Millisecond // time enough for two requests to meet
	limit = 30 * time.Second       // of a request, on a machine that is busy
)

// Run starts an example over an embedded Redis, on a port that is free, sends
// its three pairs of requests, and ends it while requests are under way.
func Run(t *testing.T, serve func(context.Context, demo.Options) error) {
	t.Setenv("REDIS_ADDR", "")
	s := start(t, serve)
	const customer7, customer8 = `{"customer":{"id":7}}`, `{"customer":{"id":8}}`
	t.Run("SecondPaymentWaits", func(t *testing.T) {
		began := time.Now()
		s.want(t, "/orders/42/pay", []string{"", ""}, http.StatusOK)
		if took := time.Since(began); took < 2*work {
			t.Errorf("two payments took %v, want one after the other", took)
		}
	})
	t.Run("SecondTransferIsRefused", func(t *testing.T) {
		s.want(t, "/transfers", []string{customer7, customer7}, http.StatusConflict)
		s.want(t, "/transfers", []string{customer7, customer8}, http.StatusOK)
	})
	t.Run("SecondReportIsRefused", func(t *testing.T) {
		s.want(t, "/report", []string{"", ""}, http.StatusConflict)
	})
	t.Run("LastRequestsAreAnswered", func(t *testing.T) {
		answers := s.post("/orders/42/pay", "", "")
		first := <-answers
		s.stop() // the second has the lock, or waits for it
		if second := <-answers; first.status != http.StatusOK || second.status != http.StatusOK {
			t.Errorf("answers = %v, %v; want two payments", first, second)
		}
		select {
		case err := <-s.ended:
			if err != nil {
				t.Errorf("the example ends with %v", err)
			}
		case <-time.After(limit):
			t.Error("the example does not end")
		}
	})
}

// A server is an example that runs.
type server struct {
	url   string
	stop  context.CancelFunc
	ended <-chan error
}

func start(t *testing.T, serve func(context.Context, demo.Options) error) *server {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := serve(ctx, demo.Options{Addr: "127.0.0.1:0", Work: work, Out: in})
		_ = in.Close()
		ended <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the example does not start: %v", <-ended)
	}
	_, rest, _ := strings.Cut(line, "listening on ")
	url, _, found := strings.Cut(rest, ";")
	if !found {
		t.Fatalf("the example says %q", line)
	}
	return &server{url: url, stop: stop, ended: ended}
}

// An answer is what a client got: a status, or a fault.
type answer struct {
	status int
	text   string
}

// post sends requests at the same time. Their answers come as they come.
func (s *server) post(path string, bodies ...string) <-chan answer {
	answers := make(chan answer, len(bodies))
	for _, body := range bodies {
		go func() { answers <- request(s.url+path, body) }()
	}
	return answers
}

func request(url, body string) answer {
	client := http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	// The Content-Type is what curl --json says.
	response, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return answer{text: err.Error()}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{text: err.Error()}
	}
	return answer{response.StatusCode, string(text)}
}

// want sends two requests at the same time. The answers must be 200 and other.
func (s *server) want(t *testing.T, path string, bodies []string, other int) {
	t.Helper()
	answers := s.post(path, bodies...)
	a, b := <-answers, <-answers
	if a.status > b.status {
		a, b = b, a
	}
	if a.status != http.StatusOK || b.status != other {
		t.Errorf("%s: answers = %v, %v; want 200 and %d", path, a, b, other)
	}
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.text) }

// Clicks sends a click on an order's payment twice, with the same idempotency key. What the second one gets depends on what charge has returned to the
// first: notPaid is the error that says that nothing was done.
func Clicks(t *testing.T, notPaid error, routes func(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler) {
	t.Helper()
	const paid, unknown = "paid\n", "IDEMPOTENCY_UNCERTAIN"
	for name, tc := range map[string]struct {
		charged  error // the first time
		lost     bool  // so is the order's lock, before
		first    int   // the statuses
		second   int
		body     string // of the second answer
		replayed string
		charges  int
	}{
		"paid":               {nil, false, http.StatusOK, http.StatusOK, paid, "true", 1},
		"not paid":           {notPaid, false, http.StatusBadGateway, http.StatusOK, paid, "", 2},
		"nobody knows":       {context.DeadlineExceeded, false, http.StatusBadGateway, http.StatusConflict, unknown, "", 1},
		"lost, not paid":     {notPaid, true, http.StatusBadGateway, http.StatusOK, paid, "", 2},
		"lost, nobody knows": {context.Canceled, true, http.StatusInternalServerError, http.StatusConflict, unknown, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			locks, charges := locktest.New(t, lockmw.WithLogger(slog.New(slog.DiscardHandler))), 0
			handler := routes(locks, func(_ context.Context, order int64) error {
				if charges++; order != 42 {
					t.Errorf("order %d is charged, want 42", order)
				}
				if charges > 1 {
					return nil
				}
				if tc.lost {
					locktest.Lose(t, locks, "order:42")
				}
				return tc.charged
			})
			click := func() *httptest.ResponseRecorder {
				w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders/042/pay", nil)
				r.Header.Set("Idempotency-Key", "k1")
				handler.ServeHTTP(w, r)
				return w
			}
			if got := click(); got.Code != tc.first {
				t.Errorf("the first click gets %d %s, want %d", got.Code, got.Body, tc.first)
			}
			got := click()
			if replayed := got.Header().Get("Idempotent-Replayed"); got.Code != tc.second || !strings.Contains(got.Body.String(), tc.body) || replayed != tc.replayed {
				t.Errorf("the second click gets %d %s, replayed %q; want %d %s, replayed %q", got.Code, got.Body, replayed, tc.second, tc.body, tc.replayed)
			}
			if charges != tc.charges {
				t.Errorf("charged %d times, want %d", charges, tc.charges)
			}
		})
	}
}

// ShutDown ends a server while a payment is at work: one that looks at its context has its lock for as long as it needs to stop, and one that does not
// keeps neither the program nor its lock.
func ShutDown(
	t *testing.T,
	path, body string, // of the request
	routes func(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler,
	shutDown func(server *http.Server, locks *lockmw.Locker, inTime, after time.Duration) error,
) {
	t.Helper()
	for name, tc := range map[string]struct {
		hangs bool
		after time.Duration
	}{
		"it stops": {false, limit},
		"it hangs": {true, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			locks := locktest.New(t)
			began, goesOn, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			server := &http.Server{Handler: routes(locks, func(ctx context.Context, _ int64) error {
				close(began)
				if tc.hangs {
					<-goesOn
					over <- nil
					return nil
				}
				<-ctx.Done()
				var wrong error
				if len(locktest.Keys(t, locks)) == 0 {
					wrong = errors.New("its context has ended, and its lock is free")
				}
				over <- wrong
				return ctx.Err()
			})}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if answer, err := http.Post("http://"+listener.Addr().String()+path, "application/json", strings.NewReader(body)); err == nil {
					_ = answer.Body.Close()
				}
			}()
			<-began
			if err := shutDown(server, locks, 200*time.Millisecond, tc.after); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("err = %v, want that it took too long", err)
			}
			if keys := locktest.Keys(t, locks); len(keys) > 0 {
				t.Errorf("locked are %q, want none", keys)
			}
			close(goesOn) // in the program, the end of the process ends it
			if err := <-over; err != nil {
				t.Error(err)
			}
			<-answered
			http.DefaultClient.CloseIdleConnections()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
}
