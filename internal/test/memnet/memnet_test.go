package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestBothEndsWriteBeforeEitherReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen()
		accepted := make(chan net.Conn)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- conn
		}()
		a, err := l.Dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b := <-accepted
		defer a.Close()
		defer b.Close()
		for _, conn := range []net.Conn{a, b} {
			for _, part := range []string{"some ", "words"} {
				if n, err := io.WriteString(conn, part); n != len(part) || err != nil {
					t.Errorf("write: %d, %v", n, err)
				}
			}
		}
		for _, conn := range []net.Conn{a, b} {
			got := make([]byte, len("some words"))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "some words" {
				t.Errorf("read %q, %v", got, err)
			}
		}
	})
}

func TestReadsEndWithTheirDeadlineOnTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe()
		defer b.Close()
		defer a.Close()
		began := time.Now()
		_ = a.SetDeadline(began.Add(time.Hour))
		_, err := a.Read(make([]byte, 1))
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Hour {
			t.Errorf("read: %v after %v", err, took)
		}
	})
}

func TestClosedEndsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe()
		_ = a.Close()
		if _, err := a.Write(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write to a closed end: %v", err)
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read of the other end: %v", err)
		}
		_ = b.Close()
	})
}

func TestNobodyAcceptsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Dial(ctx, "", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody accepts: %v", err)
		}
		time.AfterFunc(time.Second, func() { _ = l.Close() })
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if _, err := l.Dial(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial: %v", err)
		}
		_ = l.Close()
	})
}
