package ginlock_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/keyfunc"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	redistest.Main(m)
}

var framework = doortest.Framework{
	Door: "ginlock", Serve: serve, Key: key,
	Meaningless: map[string]string{"AnswerPastTheWriterIsAnAnswer": "Gin counts what goes through its own writer alone, and so does the door"},
}

func TestDoor(t *testing.T) { doortest.Run(t, framework) }

func TestDoorCostsFewAllocations(t *testing.T) { doortest.CheckAllocations(t, framework) }

func serve(routes ...doortest.Route) http.Handler {
	engine := gin.New()
	for _, route := range routes {
		handlers := []gin.HandlerFunc{around(route)}
		if !route.Bare {
			handlers = append(handlers, door(route))
		}
		if route.Behind != nil {
			handlers = append(handlers, door(*route.Behind))
		}
		engine.Handle(route.Method, doortest.ColonPath(route.Path), append(handlers, handler(route))...)
	}
	return engine
}

// door is the one of the route.
func door(route doortest.Route) gin.HandlerFunc {
	if route.Flight != nil {
		return ginlock.Idempotent(route.Locks, route.Key, *route.Flight, options(route.Options)...)
	}
	return ginlock.Middleware(route.Locks, route.Key, route.Policy, options(route.Options)...)
}

// around is the middleware around the door.
func around(route doortest.Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		for name, value := range route.Values {
			c.Set(name, value)
		}
		maps.Copy(c.Writer.Header(), route.Header.Clone())
		c.Next()
		if route.After != nil {
			route.After(c.Request)
		}
	}
}

func handler(route doortest.Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		x := &doortest.Exchange{W: c.Writer, R: c.Request, Param: c.Param, Query: c.Query}
		if err := route.Handle(x); err != nil {
			_ = c.AbortWithError(http.StatusInternalServerError, err)
		}
	}
}

func options(o doortest.Options) []ginlock.Option {
	var opts []ginlock.Option
	if o.ErrorHandler != nil {
		opts = append(opts, ginlock.WithErrorHandler(func(c *gin.Context, err error) { o.ErrorHandler(c.Writer, c.Request, err) }))
	}
	if o.Skipper != nil {
		opts = append(opts, ginlock.WithSkipper(func(c *gin.Context) bool { return o.Skipper(c.Request) }))
	}
	if o.ReadWrite {
		opts = append(opts, ginlock.WithReadWrite())
	}
	if o.BodyLimit != nil {
		opts = append(opts, ginlock.WithBodyLimit(*o.BodyLimit))
	}
	if o.BodyTimeout != 0 {
		opts = append(opts, ginlock.WithBodyTimeout(o.BodyTimeout))
	}
	if o.BufferedResponse != nil {
		opts = append(opts, ginlock.WithBufferedResponse(*o.BufferedResponse))
	}
	if o.Nil {
		opts = append(opts, nil)
	}
	if o.NilErrorHandler {
		opts = append(opts, ginlock.WithErrorHandler(nil))
	}
	if o.NilSkipper {
		opts = append(opts, ginlock.WithSkipper(nil))
	}
	if o.Keep != nil {
		opts = append(opts, ginlock.WithKeep(o.Keep))
	}
	if o.Fingerprint != nil {
		opts = append(opts, ginlock.WithFingerprint(func(c *gin.Context) ([]byte, error) { return o.Fingerprint(c.Request) }))
	}
	if o.OptionalKey {
		opts = append(opts, ginlock.WithOptionalKey())
	}
	if o.KeysOfEverybody {
		opts = append(opts, ginlock.WithKeysOfEverybody())
	}
	if o.NilKeep {
		opts = append(opts, ginlock.WithKeep(nil))
	}
	if o.NilFingerprint {
		opts = append(opts, ginlock.WithFingerprint(nil))
	}
	return opts
}

func key(native func(*http.Request) (string, error)) keyfunc.Func {
	if native == nil {
		return ginlock.Key(nil)
	}
	return ginlock.Key(func(c *gin.Context) (string, error) { return native(c.Request) })
}

func BenchmarkDoor(b *testing.B) { doortest.Benchmark(b, framework) }
