package lockclient_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockclient"
	"github.com/lockmw/kit/lockmw"
)

// Many share one Transport, over real connections, and all want the same lock at once. Each has its turn, once, with the body that it has sent.
func TestACrowdSharesATransport(t *testing.T) {
	const crowd = 20
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			locks := testenv.Open(t, redistest.Embedded(t).Client(t))
			var mu sync.Mutex
			bodies := make(map[string]int)
			inside, refused := atomic.Int32{}, atomic.Int32{}
			work := func(w http.ResponseWriter, r *http.Request) {
				if inside.Add(1) > 1 {
					t.Error("two at a time")
				}
				defer inside.Add(-1)
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Proto != protocol {
					t.Errorf("%s %v", r.Proto, err)
				}
				mu.Lock()
				bodies[string(body)]++
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
				_, _ = w.Write(body)
			}
			mux := http.NewServeMux()
			mux.Handle("POST /locked/{id}", httplock.Middleware(locks, lockedKey, lockmw.Policy{RetryAfter: time.Second})(http.HandlerFunc(work)))
			server := httptest.NewUnstartedServer(mux)
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			client.Transport = &lockclient.Transport{Base: client.Transport, Budget: lockclient.Budget{Retries: 20, Within: time.Minute, OnRefusal: func(context.Context, lockclient.Refusal) {
				refused.Add(1)
				time.Sleep(20 * time.Millisecond) // a slow one delays its own call alone
			}}}
			var all sync.WaitGroup
			for i := range crowd {
				all.Go(func() {
					want := strconv.Itoa(i) + strings.Repeat(".", 1000)
					answer, err := client.Post(server.URL+"/locked/42", "text/plain", strings.NewReader(want))
					if err != nil {
						t.Error(err)
						return
					}
					defer answer.Body.Close()
					if got, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || string(got) != want {
						t.Errorf("%d %.80s %v", answer.StatusCode, got, err)
					}
				})
			}
			all.Wait()
			client.CloseIdleConnections()
			if len(bodies) != crowd || refused.Load() == 0 {
				t.Errorf("the handler ran for %d of %d, after %d refusals", len(bodies), crowd, refused.Load())
			}
			for body, times := range bodies {
				if times != 1 {
					t.Errorf("%.10s ran %d times", body, times)
				}
			}
		})
	}
}
