package faultproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	silence  = 50 * time.Millisecond // how long nothing must come
	patience = 20 * time.Second      // how long something may take on a busy machine
)

// wire is a connection on which a test sees every byte.
type wire struct {
	net.Conn
	tb testing.TB
	r  *bufio.Reader
}

func dial(tb testing.TB, addr string) *wire {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return &wire{Conn: conn, tb: tb, r: bufio.NewReader(conn)}
}

func (w *wire) send(args ...string) {
	w.tb.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		w.tb.Fatalf("send %q: %v", args, err)
	}
}

// expect reads the next value, strings in nested values included, as Redis sent
// it with CRLF shown as a blank.
func (w *wire) expect(want string) {
	w.tb.Helper()
	w.deadline(patience)
	f, err := readReply(w.r)
	if err != nil {
		w.tb.Fatalf("read = %v, want %q", err, want)
	}
	if got := strings.ReplaceAll(strings.TrimSuffix(string(f.bytes), "\r\n"), "\r\n", " "); got != want {
		w.tb.Fatalf("read %q, want %q", got, want)
	}
}

func (w *wire) expectSilence() {
	w.tb.Helper()
	w.deadline(silence)
	if b, err := w.r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.tb.Fatalf("read %q, %v, want nothing", b, err)
	}
}

func (w *wire) expectEnd() {
	w.tb.Helper()
	w.deadline(patience)
	if b, err := w.r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		w.tb.Fatalf("read %q, %v, want the end of the connection", b, err)
	}
}

func (w *wire) deadline(d time.Duration) {
	w.tb.Helper()
	if err := w.SetReadDeadline(time.Now().Add(d)); err != nil {
		w.tb.Fatal(err)
	}
}

// oneTry makes a client report each fault, and soon.
func oneTry(o *redis.Options) {
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
}
