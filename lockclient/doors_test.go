package lockclient_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/echolock"
	echolockv5 "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockclient"
	"github.com/lockmw/kit/lockmw"
)

// A door serves POST /locked/{id} under the lock of the id, and answers POST /once once for each idempotency key.
type door func(l *lockmw.Locker, p lockmw.Policy, f lockmw.Flight, h http.HandlerFunc) http.Handler

var (
	lockedKey = keyfunc.MustParse("{param.id|int}")
	onceKey   = keyfunc.MustParse("{header.Idempotency-Key}")
)

var doors = map[string]door{
	"net/http": func(l *lockmw.Locker, p lockmw.Policy, f lockmw.Flight, h http.HandlerFunc) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /locked/{id}", httplock.Middleware(l, lockedKey, p)(h))
		mux.Handle("POST /once", httplock.Idempotent(l, onceKey, f, httplock.WithKeysOfEverybody())(h))
		return mux
	},
	"Gin": func(l *lockmw.Locker, p lockmw.Policy, f lockmw.Flight, h http.HandlerFunc) http.Handler {
		gin.SetMode(gin.TestMode)
		e := gin.New()
		e.POST("/locked/:id", ginlock.Middleware(l, lockedKey, p), gin.WrapF(h))
		e.POST("/once", ginlock.Idempotent(l, onceKey, f, ginlock.WithKeysOfEverybody()), gin.WrapF(h))
		return e
	},
	"Echo": func(l *lockmw.Locker, p lockmw.Policy, f lockmw.Flight, h http.HandlerFunc) http.Handler {
		e := echo.New()
		e.POST("/locked/:id", echo.WrapHandler(h), echolock.Middleware(l, lockedKey, p))
		e.POST("/once", echo.WrapHandler(h), echolock.Idempotent(l, onceKey, f, echolock.WithKeysOfEverybody()))
		return e
	},
	"Echo v5": func(l *lockmw.Locker, p lockmw.Policy, f lockmw.Flight, h http.HandlerFunc) http.Handler {
		e := echov5.New()
		e.POST("/locked/:id", echov5.WrapHandler(h), echolockv5.Middleware(l, lockedKey, p))
		e.POST("/once", echov5.WrapHandler(h), echolockv5.Idempotent(l, onceKey, f, echolockv5.WithKeysOfEverybody()))
		return e
	},
}

// direct sends requests to a handler, without a network, which would stop a bubble's clock.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	w := httptest.NewRecorder()
	arrives := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.RequestURI(), r.Body)
	arrives.Header = r.Header.Clone()
	defer func() {
		if recover() != nil {
			answer, err = nil, io.ErrUnexpectedEOF // as net/http has it
		}
	}()
	d.ServeHTTP(w, arrives)
	return w.Result(), nil
}

// A service is under test, behind one of the doors.
type service struct {
	testing.TB
	redis  *redistest.Mini
	locks  *lockmw.Locker
	other  *lockmw.Locker                                         // of another process
	send   func(s *service, b lockclient.Budget, path string) got // a request through its door, by a client that asks again
	policy lockmw.Policy                                          // of /locked
	crash  lockmw.Crash                                           // of /once
	ran    int                                                    // calls of the handler
	work   func(w http.ResponseWriter, r *http.Request)           // of the handler; nil: it answers at once
}

func (s *service) handle(w http.ResponseWriter, r *http.Request) {
	s.ran++
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != "an order" {
		s.Errorf("the handler reads %q, %v", body, err)
	}
	if s.work != nil {
		s.work(w, r)
		return
	}
	_, _ = io.WriteString(w, "done")
}

// A got is what a client was told.
type got struct {
	status  int
	code    string   // of the last answer
	refused []string // the codes after which asking again could help
	took    time.Duration
	err     error
}

// ask sends an order to a path. onRefusal is called at the first refusal, if it is there.
func (s *service) ask(path string, onRefusal func()) got {
	var refused []string
	began := time.Now()
	g := s.send(s, lockclient.Budget{OnRefusal: func(_ context.Context, r lockclient.Refusal) {
		if refused = append(refused, r.Code); len(refused) == 1 && onRefusal != nil {
			onRefusal()
		}
	}}, path)
	g.refused, g.took = refused, time.Since(began)
	return g
}

// flight is that of /once.
func (s *service) flight() lockmw.Flight { return lockmw.Flight{Retain: time.Minute, Crash: s.crash} }

// idempotencyKey is that of all requests to /once.
const idempotencyKey = "7f3a8d2c-01"

// overHTTP sends a request through a door of HTTP.
func (d door) overHTTP(s *service, b lockclient.Budget, path string) (g got) {
	client := http.Client{Transport: &lockclient.Transport{Base: direct{d(s.locks, s.policy, s.flight(), s.handle)}, Budget: b}}
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, "http://shop.test"+path, strings.NewReader("an order"))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", idempotencyKey)
	answer, err := client.Do(r)
	if err != nil {
		g.err = err
		return g
	}
	defer answer.Body.Close()
	var problem struct{ Code string }
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Error(err)
	}
	if answer.StatusCode >= 400 {
		if err := json.Unmarshal(text, &problem); err != nil {
			s.Errorf("%d %s: %v", answer.StatusCode, text, err)
		}
	} else if string(text) != "done" {
		s.Errorf("%d %s", answer.StatusCode, text)
	}
	g.status, g.code = answer.StatusCode, problem.Code
	return g
}

func (s *service) hold(key string) (release func()) {
	s.Helper()
	_, lease, err := s.other.Acquire(context.Background(), key, lockmw.Policy{})
	if err != nil {
		s.Fatal(err)
	}
	return func() {
		if err := lease.Release(context.Background()); err != nil {
			s.Error(err)
		}
	}
}

// want compares what a client was told, and how often the handler ran. A client of RPC has a status of HTTP only where all went well.
func (s *service) want(g got, status int, code string, ran int, refused ...string) {
	s.Helper()
	if g.status == 0 && code != "" {
		g.status = status
	}
	if g.err != nil || g.status != status || g.code != code || s.ran != ran || !slices.Equal(g.refused, refused) {
		s.Errorf("%+v, and the handler ran %d times; want %d %s after %v, and %d", g, s.ran, status, code, refused, ran)
	}
	if least := time.Duration(len(refused)) * time.Second; ran > 0 && len(refused) > 0 && g.took < least {
		s.Errorf("after %v, and the service said %v at least", g.took, least)
	}
}

var cases = map[string]func(s *service){
	"others have the lock": func(s *service) {
		release := s.hold("42")
		s.want(s.ask("/locked/42", release), 200, "", 1, "LOCK_BUSY")
	},
	"others have it for as long as a request waits": func(s *service) {
		release := s.hold("42")
		s.policy.Wait = 50 * time.Millisecond
		s.want(s.ask("/locked/42", release), 200, "", 1, "LOCK_WAIT_TIMEOUT")
	},
	"others give it back soon": func(s *service) {
		s.policy.RetryAfter = 50 * time.Millisecond // Retry-After, which is in seconds, is one
		release := s.hold("42")
		if g := s.ask("/locked/42", release); g.status != 200 || len(g.refused) != 1 || g.took < 50*time.Millisecond || g.took >= time.Second {
			s.Errorf("%+v", g)
		}
	},
	"others do not give it back": func(s *service) {
		defer s.hold("42")()
		s.policy.RetryAfter = time.Second
		s.want(s.ask("/locked/42", nil), 409, "LOCK_BUSY", 0,
			"LOCK_BUSY", "LOCK_BUSY", "LOCK_BUSY", "LOCK_BUSY", "LOCK_BUSY")
	},
	"Redis refuses": func(s *service) {
		s.redis.SetError("LOADING Redis is loading the dataset in memory")
		s.want(s.ask("/locked/42", func() { s.redis.SetError("") }), 200, "", 1, "LOCK_BACKEND_UNAVAILABLE")
	},
	"a cool-down": func(s *service) {
		s.policy.MinHold = time.Minute
		s.want(s.ask("/locked/42", nil), 200, "", 1)
		s.want(s.ask("/locked/42", nil), 409, "LOCK_COOLDOWN", 1)
	},
	"others are at work whose key stays taken": func(s *service) {
		s.policy.MinHold = time.Minute
		defer s.hold("42")()
		s.want(s.ask("/locked/42", nil), 409, "LOCK_BUSY", 0)
	},
	"the queue is full": func(s *service) {
		s.policy.Wait = 5 * time.Second
		s.locks = testenv.Open(s, s.redis.Client(s), lockmw.WithMaxWaiters(1, 1))
		release := s.hold("42")
		var first sync.WaitGroup
		first.Go(func() { s.ask("/locked/42", nil) })
		synctest.Wait()
		g := s.ask("/locked/42", release)
		first.Wait()
		s.want(g, 200, "", 2, "LOCK_QUEUE_FULL")
	},
	"the service ends": func(s *service) {
		ended := s.locks
		if err := ended.Close(s.Context()); err != nil {
			s.Error(err)
		}
		s.want(s.ask("/locked/42", nil), 503, "LOCK_CLOSED", 0,
			"LOCK_CLOSED", "LOCK_CLOSED", "LOCK_CLOSED", "LOCK_CLOSED", "LOCK_CLOSED")
	},
	"the lock is lost": func(s *service) {
		s.work = func(http.ResponseWriter, *http.Request) { s.redis.FlushAll() }
		s.want(s.ask("/locked/42", nil), 500, "LOCK_LOST", 1)
	},
	"no key": func(s *service) {
		s.want(s.ask("/locked/none", nil), 400, "LOCK_KEY_INVALID", 0)
	},
	"the first one is at work": func(s *service) {
		begins, ends := make(chan struct{}), make(chan struct{})
		s.work = func(w http.ResponseWriter, _ *http.Request) {
			close(begins)
			<-ends
			_, _ = io.WriteString(w, "done")
		}
		var first sync.WaitGroup
		first.Go(func() { s.ask("/once", nil) })
		<-begins
		s.want(s.ask("/once", func() { close(ends) }), 200, "", 1, "IDEMPOTENCY_IN_PROGRESS")
		first.Wait()
	},
	"the first one has died, and nobody knows": func(s *service) {
		s.crash = lockmw.Uncertain
		s.work = func(http.ResponseWriter, *http.Request) { panic("it dies") }
		if g := s.ask("/once", nil); g.err == nil {
			s.Errorf("%+v", g)
		}
		s.work = nil
		s.want(s.ask("/once", nil), 409, "IDEMPOTENCY_UNCERTAIN", 1)
	},
	"the first one has died, and the work may be done again": func(s *service) {
		s.crash = lockmw.RunAgain
		s.work = func(http.ResponseWriter, *http.Request) { panic("it dies") }
		if g := s.ask("/once", nil); g.err == nil {
			s.Errorf("%+v", g)
		}
		s.work = nil
		s.want(s.ask("/once", nil), 200, "", 2)
	},
}

func TestClientsOfEachDoorAskAgainWhereItHelps(t *testing.T) {
	ways := map[string]func(s *service, b lockclient.Budget, path string) got{"gRPC": overGRPC, "Connect": overConnect}
	for name, d := range doors {
		ways[name] = d.overHTTP
	}
	for name, send := range ways {
		for what, test := range cases {
			t.Run(name+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					t.Cleanup(func() { time.Sleep(time.Minute) }) // go-redis notices once a second that its pool is closed
					redis := redistest.InMemory(t)
					test(&service{
						TB: t, redis: redis, send: send,
						locks: testenv.Open(t, redis.Client(t)), other: testenv.Open(t, redis.Client(t)),
					})
				})
			})
		}
	}
}
