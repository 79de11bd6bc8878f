// Package preamble is what a snippet of the documents may use without saying where
// it comes from: the names that their text introduces, and nothing else. A handler
// is of the framework that the snippet is about, and in a file of its own.
package preamble

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/funclock"
	"github.com/lockmw/kit/lockmw"
)

var (
	ctx    context.Context
	client redis.UniversalClient
	locks  *lockmw.Locker

	db    *sql.DB
	tx    *sql.Tx
	lease *lockmw.Lease

	requestID func(context.Context) string
	signedIn  func(http.Handler) http.Handler
	onCall    func(*http.Request) bool

	server *http.Server
	mux    *http.ServeMux
	r      *gin.Engine
)

// What has a line for lockgen above it, and what that makes of it.
type (
	Order   struct{ ID string }
	Receipt struct{ Number int }
)

var ledger any

func LockOrders[T any](next T, locks *lockmw.Locker, tune ...funclock.Tune) T { return next }

// What the reader's own tests have: the test, the code under test, and a request to it.
var (
	t     *testing.T
	shop  func(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler
	post  func(handler http.Handler, path string) *httptest.ResponseRecorder
	click func(handler http.Handler, path, key string) *httptest.ResponseRecorder
)

// What protoc-gen-connect-go makes of the reader's own service, and the service.
var (
	shopv1connect struct {
		NewOrdersHandler func(service any, opts ...connect.HandlerOption) (path string, handler http.Handler)
		NewOrdersClient  func(client connect.HTTPClient, url string, opts ...connect.ClientOption) any
	}
	shopService any
)

// auth is how the reader's own code knows who sends a request.
var auth struct {
	FromContext func(ctx context.Context) (user struct{ ID, Tenant string }, ok bool)
}
