package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/golden"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// Every command says the same on each kind of server.
func TestEachCommand(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://127.0.0.1:1") // flags come first
	for kind, open := range map[string]func(t *testing.T) (client redis.UniversalClient, flags []string){
		"single": func(t *testing.T) (redis.UniversalClient, []string) {
			server := redistest.Real(t)
			return server.Client(t), []string{"--redis", "redis://" + server.Addr()}
		},
		"Cluster": func(t *testing.T) (redis.UniversalClient, []string) {
			cluster := redistest.Cluster(t)
			return cluster.Client(t), []string{"--cluster", "--redis", "redis://" + cluster.Nodes[1].Addr()}
		},
		"Sentinel": func(t *testing.T) (redis.UniversalClient, []string) {
			watched := redistest.Sentinel(t)
			name, sentinels := watched.Sentinels()
			return watched.Client(t), []string{"--sentinel", name, "--redis", "redis://127.0.0.1:1?addr=" + sentinels[0] + "&addr=" + sentinels[1]}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			client, flags := open(t)
			s := &script{t: t, flags: flags}
			s.run("", "ls")
			holds(t, client)
			for _, prefix := range []string{"order:", "stock:", "mail", "cron"} {
				s.run("", "ls", prefix)
				s.run("", "ls", prefix, "-o", "json")
			}
			s.run("", "ls", "none")
			s.run("", "ls", "none", "-o", "json")
			s.run("", "__complete", "show", "or")
			s.run("", "__complete", "show", "order:42", "")
			s.run("", "__complete", "show", "stock:") // what it has is not for a command line
			s.run("", "__complete", "ls", "-o", "")
			s.run("", "show", "order:42")
			s.run("", "show", "mail")
			s.run("", "show", "order:42", "-o", "json")
			s.run("", "show", "order:43")
			s.run("", "show", "order:43", "-o", "json")
			s.run("", "release", "order:43")
			waits(t, client)
			s.run("", "show", "shop")
			s.run("", "show", "shop", "-o", "json")
			s.run("no\n", "release", "shop")
			s.run("", "release", "order:42")
			s.run("n\n", "release", "order:42")
			s.run("", "show", "order:42")
			s.run("yes\n", "release", "order:42")
			s.run("", "show", "order:42")
			s.run("", "release", "-y", "mail")
			s.run("", "release", "-y", "cron", "-o", "json")
			cools(t, client)
			for _, prefix := range []string{"paid", "page"} {
				s.run("", "ls", prefix)
				s.run("", "ls", prefix, "-o", "json")
			}
			s.run("", "show", "paid")
			s.run("", "show", "paid", "-o", "json")
			s.run("", "show", "page")
			s.run("no\n", "release", "paid")
			s.run("", "release", "-y", "paid")
			s.run("", "show", "paid")
			id := begun(t, client, "invoice")
			s.run("", "show", "invoice")
			s.run("", "show", "invoice", "-o", "json")
			begun(t, client, "it's \u202e7")
			s.run("", "uncertain", "inv")
			s.run("", "uncertain", "inv", "-o", "json")
			s.run("", "uncertain", "it")
			s.run("", "uncertain", "it", "-o", "json")
			s.run("", "uncertain", "none")
			s.run("", "uncertain", "-o", "json", "--namespace", "other")
			s.run("", "__complete", "uncertain", "i") // what the other has is not for a command line
			s.run("", "__complete", "resolve", "inv")
			s.run("", "__complete", "resolve", "invoice", "")
			s.run("", "resolve", "invoice", "7", "again")
			s.run("", "resolve", "invoice", id, "done", `{"number": 7}`)
			s.run("", "resolve", "invoice", id, "again")
			s.run("", "show", "invoice")
			s.run("", "uncertain", "inv")
			s.run("", "resolve", "refund", begun(t, client, "refund"), "again", "-o", "json")
			settingsLife(t, s, client)
			s.run("", "doctor")
			s.run("", "doctor", "-o", "json")
			s.run("", "--namespace", "other", "ls")
			l, err := lockmw.New(client, lockmw.WithInstance("web-7"), lockmw.WithNamespace("other"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close(ended())
			take(t, l, "night", "", lockmw.Policy{})
			s.run("", "--namespace", "other", "ls")
			s.run("", "--namespace", "other", "release", "--yes", "night")
			golden.Check(t, "testdata/commands.golden", s.String())
		})
	}
}

// begun has work for a key end in the middle, and returns its id.
func begun(t *testing.T, client redis.UniversalClient, key string) string {
	t.Helper()
	l, err := lockmw.New(client, lockmw.WithInstance("web-7"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(ended())
	f := lockmw.Flight{Retain: time.Hour, Crash: lockmw.Uncertain}
	_, _, err = lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) { return 0, lockmw.ErrUncertain })
	if !errors.Is(err, lockmw.ErrUncertain) {
		t.Fatal(err)
	}
	info, err := l.Inspect(context.Background(), key)
	if err != nil || info.Answer == nil || info.Answer.State != lockmw.AnswerUncertain {
		t.Fatalf("%+v, %v", info, err)
	}
	return info.Answer.Work
}

func TestMistakes(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	s := &script{t: t}
	for _, args := range [][]string{
		{"lss"}, {"show"}, {"show", "a", "b"}, {"release"}, {"ls", "a", "b"}, {"uncertain", "a", "b"}, {"doctor", "x"}, {"ls", "--what"},
		{"ls", "-o", "xml"}, {"ls", "-o"}, {"ls", "--redis", "localhost:6379"}, {"ls", "--redis", "redis://user:pass word@x"},
		{"ls", "--cluster", "--redis", "redis://user:pass word@x"}, {"ls", "--sentinel", "main", "--redis", "redis://user:pass word@x"},
		{"ls", "--cluster", "--sentinel", "main"}, {"ls", "--namespace", "a{b"}, {"ls", "--namespace", ""}, {"ls", "--namespace", "lockmw"}, {"policy", "ls", "--namespace", "lockmw:settings"}, {"watch", "--every", "1ms"}, {"watch", "--every", "soon"},
		{"ls", "--redis", "redis://127.0.0.1:1"}, {"uncertain", "--redis", "redis://127.0.0.1:1"}, {"doctor", "--redis", "redis://127.0.0.1:1"},
		{"doctor", "--cluster", "--redis", "redis://127.0.0.1:1"}, {"doctor", "--sentinel", "main", "--redis", "redis://127.0.0.1:1"},
		{"show", "a\nb", "--redis", "redis://127.0.0.1:1"}, {"release", "-y", "a{b", "--redis", "redis://127.0.0.1:1"},
		{"resolve", "a", "7"}, {"resolve", "a", "7", "maybe"}, {"resolve", "a", "7", "done"}, {"resolve", "a", "7", "done", "{"}, {"resolve", "a", "7", "again", "7"},
		{"resolve", "a", "7", "again", "--redis", "redis://127.0.0.1:1"},
		{"policy"}, {"policy", "get"}, {"policy", "set"}, {"policy", "set", "shop/pay"}, {"policy", "set", "shop", "wait=5s"}, {"policy", "set", "sh*p/pay", "wait=5s"},
		{"policy", "set", "shop/pay", "wait"}, {"policy", "set", "shop/pay", "wait=5"}, {"policy", "set", "shop/pay", "wait=0s"}, {"policy", "set", "shop/pay", "minHold=5s"},
		{"policy", "set", "shop/pay", "wait=5s", "wait=6s"}, {"policy", "set", "shop/pay", "ttl=none"}, {"policy", "set", "shop/pay", "off=true"}, {"policy", "set", "shop/pay", "off"}, {"policy", "set", "shop/pay", "off=false"},
		{"policy", "set", "shop/pay", "ttl=1h1s"}, {"policy", "set", "shop/pay", "ttl=999ms"}, {"policy", "set", "shop/pay", "wait=1d"}, {"policy", "set", "shop/pay", "wait=5s", "--for", "1d"},
		{"policy", "set", "shop/pay", "shadow=true"}, {"policy", "set", "shop/pay", "shadow=true", "-y"},
		{"policy", "set", "shop/pay", "wait=5s", "--for", "1ms"}, {"policy", "set", "shop/pay", "wait=5s", "--for", "0s"}, {"policy", "set", "shop/pay", "wait=5s", "--reason", "a\x1bb"},
		{"policy", "clear"}, {"policy", "ls", "a", "b"}, {"policy", "ls", "--redis", "redis://127.0.0.1:1"}, {"policy", "set", "shop/pay", "wait=5s", "--redis", "redis://127.0.0.1:1"},
	} {
		s.run("", args...)
	}
	t.Setenv("REDIS_URL", "redis://127.0.0.1:1/x") // what is wrong with it is not shown: it may have a password
	s.run("", "ls")
	golden.Check(t, "testdata/mistakes.golden", s.String())
}

func TestHelp(t *testing.T) {
	s := &script{t: t}
	s.run("")
	for _, command := range []string{"ls", "show", "watch", "release", "uncertain", "resolve", "policy", "doctor"} {
		s.run("", command, "--help")
	}
	for _, command := range []string{"set", "ls", "clear"} {
		s.run("", "policy", command, "--help")
	}
	golden.Check(t, "testdata/help.golden", s.String())
	told := lockctl(t, "", "--version")
	if told.status != 0 || !strings.HasPrefix(told.out, "lockctl version ") {
		t.Errorf("--version: %+v", told)
	}
	if got := lockctl(t, "", "version"); got != told {
		t.Errorf("version: %+v, want what --version says, %+v", got, told)
	}
}

// The Sentinels have users of their own: that of the master is none of theirs.
func TestTheSentinelsAreToldWhoAsks(t *testing.T) {
	sentinel, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer sentinel.Close()
	asked := make(chan string, 1000)
	go func() {
		for {
			conn, err := sentinel.Accept()
			if err != nil {
				return
			}
			request := make([]byte, 1<<10)
			n, _ := conn.Read(request)
			_ = conn.Close()
			asked <- string(request[:n])
		}
	}()
	lockctl(t, "", "doctor", "--sentinel", "main", "--redis",
		"redis://master:one@"+sentinel.Addr().String()+"?sentinel_username=ada&sentinel_password=two")
	if first, want := await.Receive(t, "a request", asked), "auth\r\n$3\r\nada\r\n$3\r\ntwo\r\n"; !strings.Contains(first, want) {
		t.Errorf("a Sentinel is asked %q, want %q in it", first, want)
	}
}

func TestTLS(t *testing.T) {
	addr, trusting := redistest.TLS(t, redistest.Shared(t).Addr())
	t.Setenv("REDIS_URL", "rediss://"+addr)
	doctor := func(args ...string) call {
		return untilAnswered(func() call { return lockctl(t, "", append([]string{"doctor"}, args...)...) })
	}
	if got := doctor(); got.status != statusError || !strings.Contains(got.out, "--tls-ca FILE") {
		t.Errorf("a certificate that nobody knows: %+v", got)
	}
	if got := doctor("--redis", "rediss://"+addr+"?skip_verify=true"); got.status != 0 {
		t.Errorf("any certificate: %+v", got)
	}
	if got := doctor("--redis", "redis://"+addr); got.status != statusError || !strings.Contains(got.out, "does the server want TLS on that port") {
		t.Errorf("without TLS: %+v", got)
	}
	conn, err := tls.Dial("tcp", addr, trusting)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	file := filepath.Join(t.TempDir(), "authority.pem")
	known := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw})
	if err := os.WriteFile(file, known, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := untilAnswered(func() call { return start(t, []string{"SSL_CERT_FILE=" + file}, "doctor").ended(t) }); got.status != 0 {
		t.Errorf("the certificate of SSL_CERT_FILE: %+v", got)
	}
}

// A redis-server with TLS wants a certificate of its clients unless it is told otherwise.
func TestAServerThatWantsACertificate(t *testing.T) {
	addr, cert := redistest.MutualTLS(t, redistest.Shared(t).Addr(), tls.VersionTLS13)
	older, _ := redistest.MutualTLS(t, redistest.Shared(t).Addr(), tls.VersionTLS12)
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	known, key := file("cert.pem", "CERTIFICATE", cert.Certificate[0]), file("key.pem", "PRIVATE KEY", der)
	other, _ := redistest.Certificate(t)
	unknown := file("other.pem", "CERTIFICATE", other.Certificate[0])
	empty, locked := file("empty.pem", "NOTHING", nil), file("locked.pem", "ENCRYPTED PRIVATE KEY", der)
	own := []string{"--tls-ca", known, "--tls-cert", known, "--tls-key", key}
	at := func(args ...string) []string { return append([]string{"--redis", "rediss://" + addr}, args...) }
	for _, c := range []struct {
		name string
		args []string
		want status
		says string
	}{
		{"all that it wants", at(own...), statusOK, ""},
		{"a Sentinel", at(append(own, "--sentinel", "main")...), statusError, "ERR unknown command 'sentinel'"},
		{"a node of a Cluster", at(append(own, "--cluster")...), statusError, "cluster support disabled"},
		{"no certificate", at("--tls-ca", known), statusError, "--tls-cert FILE --tls-key FILE"},
		{"no certificate, TLS 1.2", []string{"--redis", "rediss://" + older + "?skip_verify=true"}, statusError, "--tls-cert FILE --tls-key FILE"},
		{"a certificate that it does not trust", []string{"--redis", "rediss://" + older + "?skip_verify=true", "--tls-cert", known, "--tls-key", key}, statusError, "does not take the certificate"},
		{"another authority", at("--tls-ca", unknown, "--tls-cert", known, "--tls-key", key), statusError, "--tls-ca FILE"},
		{"a name that the certificate has", at(append(own, "--tls-name", "localhost")...), statusOK, ""},
		{"a name that it has not", at(append(own, "--tls-name", "redis.example")...), statusError, "--tls-name NAME"},
		{"no TLS", append([]string{"--redis", "redis://" + addr}, own...), statusUsage, "rediss://"},
		{"no key", at("--tls-cert", known), statusUsage, "give both"},
		{"no file", at("--tls-ca", filepath.Join(dir, "none.pem")), statusUsage, "no such file"},
		{"nothing in the file", at("--tls-ca", empty), statusUsage, "has no certificate in PEM"},
		{"another's key", at("--tls-cert", unknown, "--tls-key", key), statusUsage, "--tls-key " + key + ": tls: private key"},
		{"an encrypted key", at("--tls-cert", known, "--tls-key", locked), statusUsage, "is encrypted"},
		{"the text of a key", at("--tls-cert", known, "--tls-key", "-----BEGIN PRIVATE KEY-----\nsecret"), statusUsage, "--tls-key wants the name of a file"},
		{"any certificate, and an authority", []string{"--redis", "rediss://" + addr + "?skip_verify=true", "--tls-ca", known}, statusUsage, "skip_verify"},
	} {
		got := untilAnswered(func() call { return lockctl(t, "", append([]string{"doctor"}, c.args...)...) })
		if got.status != c.want || !strings.Contains(got.out+got.errs, c.says) {
			t.Errorf("%s: %+v, want status %d and %q", c.name, got, c.want, c.says)
		}
		if strings.Contains(got.out+got.errs, "secret") {
			t.Errorf("%s: %+v, which has what is secret", c.name, got)
		}
	}
}

// untilAnswered asks again where there was no answer, or no message came, at most five times in all: a busy machine may take longer than doctor waits.
func untilAnswered(ask func() call) (got call) {
	for range 5 {
		if got = ask(); !strings.Contains(got.out, "there is no answer") && !strings.Contains(got.out, "does not come through to the server") {
			break
		}
	}
	return got
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := lockctl(t, "", "completion", shell)
		if got.status != 0 || !strings.Contains(got.out, "lockctl") {
			t.Errorf("%s: %+v", shell, got)
		}
		if path, err := exec.LookPath(shell); err == nil && shell != "powershell" { // it reads no script without running it
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(got.out)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s -n: %v\n%s", shell, err, out)
			}
		}
	}
	commands := slices.Collect(strings.Lines(lockctl(t, "", "__complete", "").out))
	if len(commands) < 6 {
		t.Errorf("completes %q", commands)
	}
	if got := lockctl(t, "", "__complete", "--redis", "redis://127.0.0.1:1", "show", ""); got.out != fmt.Sprintf(":%d\n", 4) {
		t.Errorf("without Redis it completes %q", got.out)
	}
}

// Others choose keys. One that would be a flag, or a text that the shell shows, is not offered.
func TestCompletionOffersKeysOnly(t *testing.T) {
	server := redistest.Real(t)
	l := locker(t, server.Client(t))
	for _, key := range []string{"--yes", "_activeHelp_ all is well", "a\u202eb", "order:42"} {
		take(t, l, key, "", lockmw.Policy{})
	}
	if got := lockctl(t, "", "__complete", "--redis", "redis://"+server.Addr(), "release", ""); got.out != "order:42\n:4\n" {
		t.Errorf("it completes %q", got.out)
	}
}

// What is no command, topic or shell is a wrong argument, wherever it stands: a script that
// writes a completion to a file must not take the help for one.
func TestWhatIsNoCommandEndsWithStatus2(t *testing.T) {
	for _, args := range [][]string{{"help", "bogus"}, {"completion", "tcsh"}, {"completion"}} {
		if got := lockctl(t, "", args...); got.status != statusUsage || got.out != "" {
			t.Errorf("%q: status %d, stdout %.40q", args, got.status, got.out)
		}
	}
}

// A handing is the terminal of somebody who thinks for so long that the lock passes on before the answer.
type handing struct {
	passOn func()
	answer io.Reader
}

func (h *handing) Read(b []byte) (int, error) {
	if h.passOn != nil {
		h.passOn()
		h.passOn = nil
	}
	return h.answer.Read(b)
}

func TestReleaseTakesNothingFromThoseWhoWereNotShown(t *testing.T) {
	server := redistest.Real(t)
	_, first, err := locker(t, server.Client(t)).Acquire(t.Context(), "order:42", lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	others := locker(t, server.Client(t))
	var second *lockmw.Lease
	for _, tc := range []struct {
		passOn func()
		status status
		says   string
	}{
		{func() {
			_ = first.Release(t.Context())
			if _, second, err = others.Acquire(t.Context(), "order:42", lockmw.Policy{}); err != nil {
				t.Error(err)
			}
		}, statusUnconfirmed, "others hold order:42 by now"},
		{func() { _ = second.Release(t.Context()) }, statusNothing, "nobody holds order:42 any more"},
	} {
		var out, errs strings.Builder
		got := run(t.Context(), []string{"release", "order:42", "--redis", "redis://" + server.Addr()}, &handing{tc.passOn, strings.NewReader("y\n")}, &out, &errs)
		if got != tc.status || !strings.Contains(errs.String(), tc.says) || out.Len() > 0 {
			t.Errorf("status %d, want %d with %q:\n%s%s", got, tc.status, tc.says, out.String(), errs.String())
		}
		if tc.status == statusUnconfirmed && !second.Valid() {
			t.Error("the second holder has lost the lock")
		}
	}
}
