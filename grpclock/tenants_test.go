package grpclock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A tenants is one service with a way in through each door, that pays an order of the
// tenant who sends a request. All ways have the same key.
type tenants struct {
	testpb.UnimplementedShopServer
	testpb.UnimplementedTenantsServer
	*testenv.Env
	log  testenv.Log
	ways map[string]way

	// paid is called by the handlers, whatever door a request came through.
	paid func(ctx context.Context)
}

// A way sends a request of a tenant, who is not said if it is empty, and returns the
// code of its answer.
type way func(tenant, order string) (code string)

// The codes of answers, by the door.
const (
	paid    = "200 OK"
	refused = "409 Aborted"
	noKey   = "400 InvalidArgument"
)

type tenantKey struct{}

// tenantIn is what authentication has left in a context.
func tenantIn(ctx context.Context, name string) (any, bool) {
	tenant, ok := ctx.Value(tenantKey{}).(string)
	return tenant, ok && name == "tenant"
}

const tenantsMethod = "/lockmwtest.v1.Tenants/Pay"

const tenantHeader = "X-Tenant" // in gRPC in any case

func newTenants(t *testing.T) *tenants {
	t.Helper()
	s := &tenants{Env: testenv.New(t, redistest.Embedded(t)), ways: make(map[string]way)}
	s.Locks = s.NewLocker(s.log.Option())
	s.ways["net/http"] = s.overHTTP(s.netHTTP())
	s.ways["Gin"] = s.overHTTP(s.gin())
	s.ways["Echo"] = s.overHTTP(s.echo())
	conn := s.serveGRPC()
	s.ways["gRPC"] = overGRPC(func(ctx context.Context, order *testpb.Order) error {
		_, err := testpb.NewShopClient(conn).Pay(ctx, order)
		return err
	})
	for name, method := range map[string]string{"Connect": payMethod, "Connect, annotated": tenantsMethod} {
		s.ways[name] = s.overConnect(name, method)
	}
	s.ways["annotated"] = overGRPC(func(ctx context.Context, order *testpb.Order) error {
		_, err := testpb.NewTenantsClient(conn).Pay(ctx, order)
		return err
	})
	return s
}

func (s *tenants) lock(name string) (*lockmw.Locker, keyfunc.Func, lockmw.Policy) {
	return s.Locks, keyfunc.MustParse("{value.tenant}:{param.id}"), lockmw.Policy{Name: name, Prefix: "order:"}
}

func (s *tenants) netHTTP() http.Handler {
	locks, key, policy := s.lock("net/http")
	values := httplock.WithValues(func(r *http.Request, name string) (any, bool) { return tenantIn(r.Context(), name) })
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", httplock.Middleware(locks, key, policy, values)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.paid(r.Context())
	})))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tenant := r.Header.Get(tenantHeader); tenant != "" {
			r = r.WithContext(context.WithValue(r.Context(), tenantKey{}, tenant))
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *tenants) gin() http.Handler {
	gin.SetMode(gin.TestMode)
	e := gin.New()
	e.Use(func(c *gin.Context) {
		if tenant := c.GetHeader(tenantHeader); tenant != "" {
			c.Set("tenant", tenant)
		}
	})
	e.POST("/orders/:id/pay", ginlock.Middleware(s.lock("Gin")), func(c *gin.Context) { s.paid(c.Request.Context()) })
	return e
}

func (s *tenants) echo() http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if tenant := c.Request().Header.Get(tenantHeader); tenant != "" {
				c.Set("tenant", tenant)
			}
			return next(c)
		}
	})
	e.POST("/orders/:id/pay", func(c echo.Context) error {
		s.paid(c.Request().Context())
		return nil
	}, echolock.Middleware(s.lock("Echo")))
	return e
}

func (s *tenants) overHTTP(h http.Handler) way {
	return func(tenant, order string) string {
		r := httptest.NewRequest(http.MethodPost, "/orders/"+order+"/pay", nil)
		r.Header.Set(tenantHeader, tenant)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return fmt.Sprint(w.Code)
	}
}

func (s *tenants) Pay(ctx context.Context, _ *testpb.Order) (*testpb.Receipt, error) {
	s.paid(ctx)
	return &testpb.Receipt{}, nil
}

func (s *tenants) serveGRPC() *grpc.ClientConn {
	rules, err := grpclock.Annotated("lockmwtest.v1.Tenants")
	if err != nil {
		s.Fatal(err)
	}
	rules = rules.With(grpclock.Rules{payMethod: {
		Key:    keyfunc.MustParse("{value.tenant}:{body.order_id}"),
		Policy: lockmw.Policy{Name: "gRPC", Prefix: "order:"},
	}})
	authenticate := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if tenant := metadata.ValueFromIncomingContext(ctx, tenantHeader); len(tenant) > 0 && tenant[0] != "" {
			ctx = context.WithValue(ctx, tenantKey{}, tenant[0])
		}
		return next(ctx, req)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate, grpclock.UnaryServerInterceptor(s.Locks, rules, grpclock.WithValues(tenantIn))))
	testpb.RegisterShopServer(server, s)
	testpb.RegisterTenantsServer(server, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			s.Errorf("serve: %v", err)
		}
	})
	return conn
}

// overConnect is a way by a handler of ConnectRPC.
func (s *tenants) overConnect(name, method string) way {
	rules, err := grpclock.Annotated("lockmwtest.v1.Tenants")
	if err != nil {
		s.Fatal(err)
	}
	rule := rules[tenantsMethod]
	rule.Policy.Name = name
	handler := connect.NewUnaryHandler(method, func(ctx context.Context, _ *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
		s.paid(ctx)
		return connect.NewResponse(&testpb.Receipt{}), nil
	}, connect.WithInterceptors(connectlock.Interceptor(s.Locks, grpclock.Rules{method: rule}, connectlock.WithValues(tenantIn))))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tenant := r.Header.Get(tenantHeader); tenant != "" {
			r = r.WithContext(context.WithValue(r.Context(), tenantKey{}, tenant))
		}
		handler.ServeHTTP(w, r)
	}))
	s.Cleanup(server.Close)
	client := connect.NewClient[testpb.Order, testpb.Receipt](server.Client(), server.URL+method)
	return func(tenant, order string) string {
		request := connect.NewRequest(&testpb.Order{OrderId: order})
		request.Header().Set(tenantHeader, tenant)
		_, err := client.CallUnary(context.Background(), request)
		if err == nil {
			return codes.OK.String()
		}
		return codes.Code(connect.CodeOf(err)).String()
	}
}

func overGRPC(call func(context.Context, *testpb.Order) error) way {
	return func(tenant, order string) string {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), tenantHeader, tenant), testenv.Patience)
		defer cancel()
		return status.Code(call(ctx, &testpb.Order{OrderId: order})).String()
	}
}

// want fails the test unless a request that came in by a way has the answer.
func (s *tenants) want(name, tenant, order, answer string) {
	s.Helper()
	if got := s.ways[name](tenant, order); !slices.Contains(strings.Fields(answer), got) {
		s.Errorf("order %s of %q by %s: %s, want %s", order, tenant, name, got, answer)
	}
}

// Two tenants use the same order id, and never share a lock, whatever doors their
// requests come through. Two requests of one tenant do, through any two of them.
func TestTenantsNeverShareALock(t *testing.T) {
	s := newTenants(t)
	for first := range s.ways {
		working, done := make(chan string), make(chan struct{})
		s.paid = func(ctx context.Context) {
			lease, _ := lockmw.FromContext(ctx)
			working <- lease.Key()
			<-done
		}
		answers := make(chan string, 1)
		go func() { answers <- s.ways[first]("acme", "42") }()
		if got := testenv.Receive(s.Env, "the handler", working); got != "order:acme:42" {
			t.Errorf("by %s: the handler runs under %q", first, got)
		}
		s.paid = func(context.Context) {}
		for second := range s.ways {
			s.want(second, "acme", "42", refused)
			s.want(second, "globex", "42", paid)
			s.want(second, "acme", "43", paid)
			s.want(second, "acme:42", "42", paid)
		}
		close(done)
		if got := testenv.Receive(s.Env, "the answer", answers); !slices.Contains(strings.Fields(paid), got) {
			t.Errorf("by %s: %s", first, got)
		}
	}
	s.WantFree()
}

// A request without a tenant has no key: it is refused, and the log has a line.
func TestRequestWithoutATenantIsRefused(t *testing.T) {
	s := newTenants(t)
	s.paid = func(context.Context) { t.Error("the handler runs") }
	var want []string
	for name := range s.ways {
		s.want(name, "", "42", noKey)
		want = append(want, fmt.Sprintf(`WARN LOCK_KEY_INVALID lockmw: acquire "order:" for %q: invalid key: keyfunc: required value is missing or empty: value "tenant"`, name))
	}
	s.CloseNow(s.Locks)
	got := s.log.Lines()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s.WantUnasked()
}
