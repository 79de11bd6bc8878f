// Package fenced is a resource that refuses late writers: a tiny server that
// keeps the highest fence it has seen of each key and accepts no write with a
// lower one. It lives outside of any lock service. postgres.go has the same as
// a service would have it: a PostgreSQL, with package fence.
package fenced

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/clock"
)

// Answer says what became of a write.
type Answer struct {
	Accepted bool
	Highest  int64 // the highest fence before this write
	Place    int64 // in the order of all writes
}

// A Record is what the store itself knows of a write: one whose worker was
// killed before it could tell of it was done all the same.
type Record struct {
	Answer

	Key   string
	Fence int64
	At    time.Duration // of package clock
}

// Store is the server.
type Store struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu      sync.Mutex
	highest map[string]int64
	log     []Record              // by place, from 1
	conns   map[net.Conn]struct{} // nil after the end
}

// Start starts a store on a free loopback port; it ends with the test.
func Start(tb testing.TB) *Store {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Store{listener: listener, highest: make(map[string]int64), conns: make(map[net.Conn]struct{})}
	s.serving.Go(s.accept)
	tb.Cleanup(s.close)
	return s
}

// Addr returns the store's address.
func (s *Store) Addr() string { return s.listener.Addr().String() }

func (s *Store) write(key string, fence int64) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := clock.Now()
	a := Answer{Accepted: fence >= s.highest[key], Highest: s.highest[key], Place: int64(len(s.log) + 1)}
	s.highest[key] = max(fence, s.highest[key])
	s.log = append(s.log, Record{Answer: a, Key: key, Fence: fence, At: at})
	return a
}

// Log returns all writes in the order in which they were done.
func (s *Store) Log() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *Store) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		open := s.conns != nil
		if open {
			s.conns[conn] = struct{}{}
		}
		s.mu.Unlock()
		if !open {
			_ = conn.Close()
			continue
		}
		s.serving.Go(func() { s.serve(conn) })
	}
}

func (s *Store) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var key string
		var fence int64
		if _, err := fmt.Sscan(lines.Text(), &key, &fence); err != nil {
			return
		}
		a := s.write(key, fence)
		if _, err := fmt.Fprintln(conn, a.Accepted, a.Highest, a.Place); err != nil {
			return
		}
	}
}

func (s *Store) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.serving.Wait()
}

// Client writes to a store, one write at a time. It may be used concurrently.
type Client struct {
	mu    sync.Mutex
	conn  net.Conn
	lines *bufio.Scanner
}

// Dial connects to the store at addr.
func Dial(addr string) (*Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, lines: bufio.NewScanner(conn)}, nil
}

// Write asks the store to accept a write to key, which has no spaces, under a
// fence.
func (c *Client) Write(key string, fence int64) (a Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintln(c.conn, key, fence); err != nil {
		return Answer{}, err
	}
	if !c.lines.Scan() {
		return Answer{}, fmt.Errorf("fenced: the store has gone: %w", c.lines.Err())
	}
	_, err = fmt.Sscan(c.lines.Text(), &a.Accepted, &a.Highest, &a.Place)
	return a, err
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
