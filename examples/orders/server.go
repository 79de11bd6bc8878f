package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// anyPort is a loopback address with a port that the system chooses.
const anyPort = "127.0.0.1:0"

// A server is an HTTP server.
type server struct {
	url   string
	ended chan error // gets the reason if the server ends by itself
	http  *http.Server
	done  chan struct{}
}

// listen starts a server. The caller stops it.
func listen(addr string, h http.Handler) (*server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &server{
		url:   "http://" + l.Addr().String(),
		ended: make(chan error, 1),
		http:  &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second},
		done:  make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.ended <- err
		}
	}()
	return s, nil
}

// stop lets requests finish for a moment, then ends those that have not.
func (s *server) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.done
}
