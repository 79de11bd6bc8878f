package redistest

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// oneTry makes a client report a fault of the server at once.
func oneTry(o *redis.Options) {
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.ReadTimeout = 5 * time.Second
}

func set(t *testing.T, client *redis.Client, key, value string) {
	t.Helper()
	if err := client.Set(t.Context(), key, value, time.Minute).Err(); err != nil {
		t.Fatalf("SET %s: %v", key, err)
	}
}

func TestServersAtOnceAreSeparate(t *testing.T) {
	a, b := Real(t), Real(t)
	set(t, a.Client(t), "k", "a")
	set(t, b.Client(t), "k", "b")
	for want, s := range map[string]*Server{"a": a, "b": b} {
		if got := s.Client(t).Get(t.Context(), "k").Val(); got != want {
			t.Errorf("GET k at %s = %q, want %q", s.Addr(), got, want)
		}
	}
}

func TestKilledServerRefusesConnections(t *testing.T) {
	s := Real(t)
	s.Kill()
	s.Kill() // nothing to do
	conn, err := net.Dial("tcp", s.Addr())
	if err == nil {
		conn.Close()
		t.Fatal("a killed server accepted a connection")
	}
	if err := s.Stop(); err == nil {
		t.Error("Stop of a killed server = nil, want an error")
	}
	if err := s.Cont(); err == nil {
		t.Error("Cont of a killed server = nil, want an error")
	}
}

func TestRestartedServerIsEmptyAndOnTheSamePort(t *testing.T) {
	s := Real(t)
	client := s.Client(t)
	addr := s.Addr()
	set(t, client, "k", "v")
	pid := s.proc.PID()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := s.Addr(); got != addr {
		t.Errorf("address = %s, want %s", got, addr)
	}
	if got := s.proc.PID(); got == pid {
		t.Errorf("process = %d, want another one", got)
	}
	if err := client.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET k after the restart = %v, want %v", err, redis.Nil)
	}
}

func TestKilledServerCanBeRestarted(t *testing.T) {
	s := Real(t)
	for range 5 {
		s.Kill()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	set(t, s.Client(t), "k", "v")
}

func TestStoppedServerAnswersAfterCont(t *testing.T) {
	s := Real(t)
	client := s.Client(t, oneTry, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	set(t, client, "k", "v")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := client.Get(ctx, "k").Result(); err == nil {
		t.Errorf("a stopped server answered %q", got)
	}
	if err := s.Cont(); err != nil {
		t.Fatal(err)
	}
	if got := client.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("GET k after Cont = %q, want %q", got, "v")
	}
}

func TestStoppedServerCanBeClosed(t *testing.T) {
	s := Real(t)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory after Close: %v, want %v", err, os.ErrNotExist)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close = %v, want nil", err)
	}
	if err := s.Restart(); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("Restart of a closed server = %v, want an error that says so", err)
	}
}

func TestArgsWinOverDefaults(t *testing.T) {
	s := Real(t, Args("--maxmemory-policy", "allkeys-lru", "--loglevel", "warning"))
	client := s.Client(t)
	for name, want := range map[string]string{"maxmemory-policy": "allkeys-lru", "loglevel": "warning"} {
		if got := client.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestServerWithPasswordStarts(t *testing.T) {
	s := Real(t, Args("--requirepass", "secret"))
	client := s.Client(t, func(o *redis.Options) { o.Password = "secret" })
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestDebugCommandIsOpen(t *testing.T) {
	if err := Real(t).Client(t).Do(t.Context(), "DEBUG", "SLEEP", "0").Err(); err != nil {
		t.Error(err)
	}
}

func TestBadArgumentIsReportedWithTheLog(t *testing.T) {
	s, err := Start(Args("--no-such-directive", "1"))
	if err == nil {
		_ = s.Close()
		t.Fatal("a server with an unknown directive started")
	}
	if !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("error = %q, want it to hold the server's own words", err)
	}
}

func TestMissingBinaryNamesTheRemedy(t *testing.T) {
	t.Setenv("REDIS_SERVER", "no-such-redis-server")
	_, err := Start()
	if !errors.Is(err, errNoBinary) {
		t.Fatalf("error = %v, want %v", err, errNoBinary)
	}
	if !strings.Contains(err.Error(), "make test") {
		t.Errorf("error = %q, want it to say what to do", err)
	}
}

// Another server on the port must neither be taken for ours nor end the search.
func TestTakenPortIsNotTakenForOurs(t *testing.T) {
	other := Real(t)
	s := &Server{binary: other.binary, dir: t.TempDir(), port: other.port}
	if err := s.start(); !errors.Is(err, errPortTaken) {
		t.Errorf("start on a taken port = %v, want %v", err, errPortTaken)
	}
	if s.proc != nil {
		t.Error("a process is left after a failed start")
	}
	if err := probe(other.Addr(), other.proc.PID()+1); !errors.Is(err, errPortTaken) {
		t.Errorf("probe for another process = %v, want %v", err, errPortTaken)
	}
}

func TestTakenPortLetsAnotherBeTried(t *testing.T) {
	other := Real(t)
	s := &Server{binary: other.binary, dir: t.TempDir()}
	ports := []int{other.port, other.port}
	err := s.startOnFreePort(func() int {
		if len(ports) == 0 {
			return randomPort()
		}
		port := ports[0]
		ports = ports[1:]
		return port
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	if s.port == other.port {
		t.Error("two servers have one port")
	}
}

// What redis-server keeps of its environment cannot be read; its log follows TZ.
func TestServerGetsItsEnvironment(t *testing.T) {
	there := time.FixedZone("there", 7*60*60)
	hour := func() string { return time.Now().In(there).Format("02 Jan 2006 15:") }
	before := hour()
	s := Real(t, Env("TZ=UTC-7"))
	if said := s.Log(); !strings.Contains(said, before) && !strings.Contains(said, hour()) {
		t.Errorf("no %q in its log:\n%s", before, said)
	}
}
