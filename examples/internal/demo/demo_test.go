package demo_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/examples/internal/demo"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// taken returns an address where somebody listens who never answers.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestEmbeddedRedisAnswers(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	client, closeAll, err := demo.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestNamedRedisIsUsed(t *testing.T) {
	server := redistest.Embedded(t)
	if err := server.Set("k", "v"); err != nil {
		t.Fatal(err)
	}
	addr := server.Addr()
	for _, named := range []string{addr, "redis://" + addr + "/0"} {
		t.Setenv("REDIS_ADDR", named)
		client, closeAll, err := demo.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := client.Get(t.Context(), "k").Val(); got != "v" {
			t.Errorf("%s: k = %q, want v", named, got)
		}
		closeAll()
	}
}

func TestUnusableRedisIsNamed(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:1":                      "no Redis at 127.0.0.1:1: ",
		taken(t):                           "no Redis at 127.0.0.1:",
		"redis://user:secret@127.0.0.1:1":  "no Redis at 127.0.0.1:1: ",
		"redis://user:secret@127.0.0.1:xy": "REDIS_ADDR: ",
		"http://user:secret@127.0.0.1":     "REDIS_ADDR: ",
	} {
		t.Setenv("REDIS_ADDR", addr)
		_, _, err := demo.Open(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error = %v, want %q and no password", addr, err, want)
		}
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	addr := taken(t)
	err := demo.Serve(context.Background(), demo.Options{Addr: addr}, http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "-addr") {
		t.Errorf("error = %v, want one that names the address and the flag", err)
	}
}

func TestWorkStopsWithItsContext(t *testing.T) {
	if err := demo.Work(t.Context(), time.Millisecond); err != nil {
		t.Errorf("error = %v, want none", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(http.ErrHandlerTimeout)
	if err := demo.Work(ctx, time.Hour); err != http.ErrHandlerTimeout { //nolint:errorlint // the very one
		t.Errorf("error = %v, want the context's cause", err)
	}
}
