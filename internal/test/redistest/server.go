package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/lockmw/kit/internal/test/process"
)

// errNoBinary tells that there is no redis-server to start.
var errNoBinary = errors.New("redistest: no redis-server found; `make test` installs it, or set REDIS_SERVER to its path")

const (
	startTimeout = 20 * time.Second // for one server to answer, on a busy machine
	portAttempts = 20

	// Ports below the range from which systems take outgoing connections (Linux
	// from 32768, macOS from 49152). A port inside of it could be taken between
	// Kill and Restart by a client that dials the dead server and, by chance,
	// from the very same port.
	portMin = 12000
	portMax = 32000
)

// Option changes how a server is started.
type Option func(*Server)

// Args adds arguments to the command line of redis-server, after those of this
// package, so that they win: Args("--maxmemory-policy", "allkeys-lru").
func Args(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// Env adds variables, "NAME=value", to the environment of redis-server.
func Env(vars ...string) Option {
	return func(s *Server) { s.env = append(s.env, vars...) }
}

// Program has this program run in place of the redis-server that is found: a
// name on the PATH or a path.
func Program(name string) Option {
	return func(s *Server) { s.binary = name }
}

// DownSoon has Sentinels take a master for down after half a second, and the masters of a
// Cluster each other after two. It is for tests in which one is killed or stopped: on a
// busy machine a master that is well may be silent for as long as that.
func DownSoon() Option {
	return func(s *Server) { s.downSoon = true }
}

// Server is a redis-server process on a loopback port. All methods may be called
// concurrently; those that change its state wait for each other.
type Server struct {
	binary   string
	args     []string
	env      []string // besides this process's own
	sentinel string   // its configuration; empty: a server that keeps data
	downSoon bool     // for Sentinels and masters of a Cluster
	dir      string
	port     int

	mu     sync.Mutex
	proc   *process.Process // nil when no process runs
	closed bool
}

// Start starts a redis-server and returns once it answers. It is an error if there
// is none. The caller owns the server and must Close it; on Linux it dies with this
// process in any case.
func Start(opts ...Option) (*Server, error) {
	s := &Server{binary: os.Getenv("REDIS_SERVER")}
	for _, opt := range opts {
		opt(s)
	}
	var err error
	if s.binary, err = findBinary(s.binary); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "redistest-"); err != nil {
		return nil, err
	}
	if err := s.startOnFreePort(randomPort); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

func findBinary(name string) (string, error) {
	if name == "" {
		name = "redis-server"
	}
	binary, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoBinary, err)
	}
	return filepath.Abs(binary) // the process runs in another directory
}

// Addr returns the server's address, "127.0.0.1:port". It never changes.
func (s *Server) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// Log returns what the server and its predecessors before a Restart have
// written so far.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Kill ends the process with SIGKILL and waits for its end, so that the port
// refuses connections and all data is gone. A server that does not run is left
// as it is. Restart brings it back.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Stop suspends the process with SIGSTOP: connections stay open and new ones are
// accepted by the system, but nothing is answered. On Linux it returns once the
// process has stopped. It is an error if the server does not run.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return s.notRunning("stop")
	}
	return s.proc.Suspend()
}

// Cont lets a stopped process continue; what it was sent meanwhile is answered.
// It is an error if the server does not run.
func (s *Server) Cont() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return s.notRunning("continue")
	}
	return s.proc.Resume()
}

// Restart kills the process if it runs and starts an empty one on the same port.
// It returns once that one answers.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.notRunning("restart")
	}
	s.kill()
	deadline := time.Now().Add(startTimeout)
	for {
		err := s.start()
		if !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			return err
		}
	}
}

// Close ends the process like Kill and removes its directory; the server cannot
// be restarted. A second Close does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	s.closed = true
	return os.RemoveAll(s.dir)
}

func (s *Server) kill() {
	if s.proc != nil {
		s.proc.End()
		s.proc = nil
	}
}

func (s *Server) notRunning(what string) error {
	return fmt.Errorf("redistest: cannot %s the server at %s: it does not run", what, s.Addr())
}

// startOnFreePort tries ports at random, because a port that was found free may
// be taken by the time redis-server binds it.
func (s *Server) startOnFreePort(pick func() int) error {
	var err error
	for range portAttempts {
		s.port = pick()
		if err = s.start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

func randomPort() int { return portMin + rand.IntN(portMax-portMin) }

// start runs redis-server on s.port. On failure no process is left.
func (s *Server) start() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor
	before := len(s.Log())
	args := append(s.baseArgs(), s.args...)
	if s.downSoon {
		args = append(args, "--cluster-node-timeout", "2000")
	}
	if s.sentinel != "" {
		if args, err = s.sentinelArgs(); err != nil {
			return err
		}
	}
	cmd := exec.Command(s.binary, args...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), s.env...)
	proc, err := process.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := awaitReady(s.Addr(), proc, startTimeout); err != nil {
		proc.End()
		said := []byte(s.Log())[before:]
		if bytes.Contains(said, []byte("ddress already in use")) {
			err = errPortTaken
		}
		return fmt.Errorf("redistest: %s on %s: %w (exit: %w); it wrote:\n%s", s.binary, s.Addr(), err, proc.Err(), said)
	}
	s.proc = proc
	return nil
}

func (s *Server) baseArgs() []string {
	return []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port),
		"--dir", s.dir, "--save", "", "--appendonly", "no",
		"--enable-debug-command", "local", "--loglevel", "notice",
		"--repl-diskless-sync-delay", "0", // a replica is served at once, not in 5 s
	}
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }
