package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// redisCommand, as the only argument, makes this program run a redis-server. It is a
// process of its own so that the server ends with its starter, however that ends.
const redisCommand = "redis-server"

// portEnv is the port that the redis-server is to listen on.
const portEnv = "REDIS_PORT"

const redisStarts = 10 * time.Second // on a busy machine

// runRedis runs a redis-server on loopback that keeps nothing on disk, until standard
// input ends. It prints the server's address and process once it answers.
func runRedis() error {
	signal.Ignore(os.Interrupt) // as runShop
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	port := os.Getenv(portEnv)
	dir, err := os.MkdirTemp("", "orders-redis-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no")
	apart(server)
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() {
		_ = server.Process.Kill() // there is nothing that it could save
		<-ended
	}()

	addr := net.JoinHostPort("127.0.0.1", port)
	if err := answers(ctx, addr); err != nil {
		return err
	}
	fmt.Println(addr, server.Process.Pid)
	select {
	case <-inputEnd():
	case <-ctx.Done():
	case err := <-ended:
		ended <- err
		return fmt.Errorf("redis-server has ended: %w", err)
	}
	return nil
}

// answers returns when the server at addr does.
func answers(ctx context.Context, addr string) error {
	ctx, stop := context.WithTimeoutCause(ctx, redisStarts, fmt.Errorf("the redis-server at %s does not answer", addr))
	defer stop()
	for {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
	}
}

// redisAway is how long a redis-server that has ended stays away: long enough to see what
// an outage does. Tests have less patience.
var redisAway = 15 * time.Second

// openRedis returns the Redis that REDIS_ADDR names, or one of the program's own: a
// redis-server if there is one, otherwise an embedded one.
func (s *story) openRedis(ctx context.Context) (*database, error) {
	if os.Getenv(redisEnv) != "" {
		return openRedis(ctx)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return embeddedRedis()
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	r := &ownRedis{story: s, addr: addr}
	var keeper sync.WaitGroup
	stop := func() {
		end()
		keeper.Wait()
		_ = r.processes.stop(false) // what it may have to say does not matter any more
	}
	if err := r.start(ctx); err != nil {
		end()
		return nil, errors.Join(err, r.processes.stop(true))
	}
	db, err := namedRedis(ctx, addr)
	if err != nil {
		stop()
		return nil, err
	}
	db.pid = r.pid()
	keeper.Go(func() { r.keep(ctx) })
	closeClient := db.close
	db.close = func() {
		closeClient()
		stop()
	}
	return db, nil
}

// freeAddr returns a loopback address whose port is free now.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ownRedis is a redis-server that the program has started.
type ownRedis struct {
	story     *story
	addr      string
	processes *processes
	life      context.Context // ends when the server does
}

func (r *ownRedis) start(ctx context.Context) error {
	life, ended := context.WithCancelCause(ctx)
	_, port, _ := net.SplitHostPort(r.addr)
	r.processes, r.life = &processes{}, life
	if err := r.processes.start("Redis", redisCommand, ended, portEnv+"="+port); err != nil {
		return err
	}
	return r.processes.await(life)
}

// pid is the server's, as runRedis has printed it.
func (r *ownRedis) pid() string {
	_, pid, _ := strings.Cut(r.processes.list[0].line, " ")
	return pid
}

// keep starts a server anew when it has ended, until ctx does.
func (r *ownRedis) keep(ctx context.Context) {
	for {
		<-r.life.Done()
		if ctx.Err() != nil {
			return
		}
		_ = r.processes.stop(false) // that it has ended is known
		r.story.sayf("The redis-server has ended, and what was locked is forgotten. Another one starts in %v, at the same address.", redisAway)
		if pause(ctx, redisAway) != nil {
			return
		}
		switch err := r.start(ctx); {
		case err == nil:
			r.story.sayf("A new redis-server runs, as process %s.", r.pid())
		case ctx.Err() == nil:
			r.story.sayf("There is no new redis-server: %v", err)
			return
		}
	}
}
