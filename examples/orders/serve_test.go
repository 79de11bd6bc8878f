//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// served are the processes of a program with -serve: itself, four shops, and the one that
// runs Redis.
const served = 1 + 4 + 1

// An opened program runs with -serve.
type opened struct {
	cmd   *exec.Cmd
	shops []string // URLs
	redis string   // the address of its own redis-server
	pid   int      // of that
	read  sync.WaitGroup

	mu   sync.Mutex
	said strings.Builder
}

// open starts the program with -serve and returns when it has said where everything is.
func open(t *testing.T, r *roll) *opened {
	t.Helper()
	p := new(opened)
	cmd, errs := program(t, r, "", "-serve", "-addr", "127.0.0.1:0")
	p.cmd = cmd
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.read.Go(func() {
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			p.mu.Lock()
			p.said.WriteString(line)
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	p.await(t, "Ctrl-C ends it")
	said := p.text()
	p.shops = regexp.MustCompile(`http://\S+`).FindAllString(find(t, said, `(?m)^  shops +(.*)$`), -1)
	if len(p.shops) != 4 {
		t.Fatalf("no addresses of four shops:\n%s\n%s", said, errs)
	}
	p.redis = find(t, said, `Redis: (\S+)\.`)
	p.pid, _ = strconv.Atoi(find(t, said, `kill -STOP (\d+)`))
	return p
}

func find(t *testing.T, text, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in:\n%s", pattern, text)
	}
	return found[1]
}

func (p *opened) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// await returns when the program has said what is wanted.
func (p *opened) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(limit / 2); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(p.text(), want) {
			return
		}
	}
	t.Fatalf("it does not say %q:\n%s", want, p.text())
}

// wait returns the exit status of the program, and fails the test if it leaves a
// redis-server.
func (p *opened) wait(t *testing.T) int {
	t.Helper()
	p.read.Wait()
	err := p.cmd.Wait()
	for end := time.Now().Add(limit / 6); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", p.redis)
		if err != nil {
			break
		}
		conn.Close()
		if time.Now().After(end) {
			t.Errorf("the redis-server at %s outlived the program", p.redis)
			break
		}
	}
	return exitCode(t, err)
}

// interrupt ends the program as Ctrl-C does.
func (p *opened) interrupt(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	if code := p.wait(t); code != 0 {
		t.Errorf("exit status after an interrupt = %d, want 0", code)
	}
	if took := time.Since(asked); took > limit/3 {
		t.Errorf("the end took %v", took)
	}
}

func TestServedProgramShowsEverything(t *testing.T) {
	r := callRoll(t)
	p := open(t, r)
	for i, shop := range p.shops {
		if status, _ := get(t, shop+consolePath); status == http.StatusNotFound || status == 0 {
			t.Errorf("the console of shop %d answers %d", i+1, status)
		}
		awaitRedisUp(t, shop)
	}
	p.await(t, "takes the lock of order:13 by force from shop-")
	p.await(t, "lost the lock of order 13")
	p.interrupt(t)
	r.close(t, served)
}

func TestServedProgramOutlivesAnOutageOfRedis(t *testing.T) {
	r := callRoll(t)
	p := open(t, r)
	p.signal(t, p.pid, syscall.SIGSTOP)
	p.await(t, "Redis does not answer")
	p.signal(t, p.pid, syscall.SIGCONT)
	p.await(t, "Redis answers again")

	p.signal(t, p.pid, syscall.SIGKILL)
	p.await(t, "The redis-server has ended")
	p.await(t, "A new redis-server runs")
	awaitPayment(t, p.shops[0])
	p.interrupt(t)
	r.close(t, served+1)
}

func (p *opened) signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Signal(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRedisUp returns when the metrics of a shop tell that Redis is up.
func awaitRedisUp(t *testing.T, shop string) {
	t.Helper()
	text := ""
	if !comes(func() bool {
		_, text = get(t, shop+metricsPath)
		return strings.Contains(text, "\nlockmw_redis_up 1\n")
	}) {
		t.Errorf("the metrics of %s do not tell that Redis is up:\n%s", shop, text)
	}
}

// awaitPayment returns when an order can be paid.
func awaitPayment(t *testing.T, shop string) {
	t.Helper()
	status := 0
	if !comes(func() bool {
		status = post(t, shop+"/orders/7/pay")
		return status == http.StatusOK
	}) {
		t.Fatalf("a payment is answered with %d", status)
	}
}

// comes asks until done says so, for half of the limit.
func comes(done func() bool) bool {
	for end := time.Now().Add(limit / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}

func TestProcessesOfAKilledProgramEnd(t *testing.T) {
	r := callRoll(t)
	p := open(t, r)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
	r.close(t, served)
	if resp, err := http.Get(p.shops[0]); err == nil {
		resp.Body.Close()
		t.Error("a shop still answers")
	}
}

func TestServedShopRefusesWhatIsHeld(t *testing.T) {
	r := callRoll(t)
	p := open(t, r)
	paid := make(chan int, 1)
	go func() { paid <- post(t, p.shops[0]+"/orders/7/pay?hold=1500ms") }()

	refund := p.shops[3] + "/orders/7/refund"
	for end := time.Now().Add(limit); post(t, refund) != http.StatusConflict; {
		if time.Now().After(end) {
			t.Fatal("no refund was refused")
		}
	}
	if got, want := <-paid, http.StatusOK; got != want {
		t.Errorf("status of the payment = %d, want %d", got, want)
	}
	if got, want := post(t, refund), http.StatusOK; got != want {
		t.Errorf("status of a refund after it = %d, want %d", got, want)
	}
	p.interrupt(t)
	r.close(t, served)
}

func TestTakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := callRoll(t)
	cmd, errs := program(t, r, "", "-serve", "-shops", "1", "-addr", l.Addr().String())
	if code := exitCode(t, cmd.Run()); code != 1 {
		t.Errorf("exit status = %d, want 1", code)
	}
	for _, want := range []string{l.Addr().String(), "-addr names another address"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("it said %q, want %q", errs, want)
		}
	}
	r.close(t, 1+1+1)
}

func TestServedShopsHavePortsInARow(t *testing.T) {
	o := options{shops: 3, serve: true, addr: "127.0.0.1:8080"}
	if got, err := o.addrs(); err != nil || fmt.Sprint(got) != "[127.0.0.1:8080 127.0.0.1:8081 127.0.0.1:8082]" {
		t.Errorf("addresses = %v, %v", got, err)
	}
	o.addr = "127.0.0.1:0"
	if got, err := o.addrs(); err != nil || fmt.Sprint(got) != "[127.0.0.1:0 127.0.0.1:0 127.0.0.1:0]" {
		t.Errorf("addresses = %v, %v", got, err)
	}
	for _, wrong := range []string{"8080", "127.0.0.1:http", "127.0.0.1:65535"} {
		o.addr = wrong
		if got, err := o.addrs(); err == nil || !strings.Contains(err.Error(), "-addr") {
			t.Errorf("%s: %v, %v; want an error that names -addr", wrong, got, err)
		}
	}
}

// post returns the answer's status, 0 if there is none.
func post(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Post(url, "", nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// get returns an answer, 0 if there is none.
func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(body)
}
