package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/httplock"
)

const paid = "paid"

func netHTTP(l *locks) http.Handler {
	var pay http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, paid) })
	if l.locks != nil {
		pay = httplock.Middleware(l.locks, pathKey, l.policy)(pay)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", pay)
	return mux
}

func withGin(l *locks) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	var chain []gin.HandlerFunc
	switch {
	case l.locks != nil:
		chain = append(chain, ginlock.Middleware(l.locks, pathKey, l.policy))
	case l.other != nil:
		chain = append(chain, byHand(l.other))
	}
	r := gin.New()
	r.POST("/orders/:id/pay", append(chain, func(c *gin.Context) { c.String(http.StatusOK, paid) })...)
	return r
}

// byHand is a middleware as people write it over a library that has none.
func byHand(locker library.Locker) gin.HandlerFunc {
	return func(c *gin.Context) {
		unlock, err := locker.Lock(c.Request.Context(), "pay:order:"+c.Param("id"))
		if err != nil {
			c.AbortWithStatus(http.StatusConflict)
			return
		}
		defer func() { _ = unlock() }()
		c.Next()
	}
}

func withEcho(l *locks) http.Handler {
	var chain []echo.MiddlewareFunc
	if l.locks != nil {
		chain = append(chain, echolock.Middleware(l.locks, pathKey, l.policy))
	}
	e := echo.New()
	e.POST("/orders/:id/pay", func(c echo.Context) error { return c.String(http.StatusOK, paid) }, chain...)
	return e
}

// overHTTP is a door for HTTP requests.
type overHTTP struct {
	locks  *locks
	server *http.Server
	served chan error
	client *http.Client
	url    string
}

func serveHTTP(h http.Handler, l *locks) (Door, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1000 // each goroutine keeps its connection
	transport.Proxy = nil
	d := &overHTTP{
		locks:  l,
		server: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second},
		served: make(chan error, 1), // the one goroutine that serves
		client: &http.Client{Transport: transport},
		url:    "http://" + listener.Addr().String() + "/orders/",
	}
	go func() { d.served <- d.server.Serve(listener) }()
	return d, nil
}

func (d *overHTTP) Request(ctx context.Context, order string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+order+"/pay", nil)
	if err != nil {
		return err
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && string(text) != paid {
		err = fmt.Errorf("answered %s: %s", resp.Status, text)
	}
	return err
}

func (d *overHTTP) Close() error {
	d.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := errors.Join(d.server.Shutdown(ctx), d.server.Close())
	if served := <-d.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, d.locks.Close())
}
