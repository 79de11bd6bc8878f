package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lockmw/kit/internal/test/faultproxy"
)

const (
	processes  = 3
	duplicates = 4
	within     = 300 * time.Millisecond // the duplicates of a key are sent
	patience   = 15 * time.Second       // of a client
)

// A plan is what happens to the requests of a key.
type plan struct {
	dies   string // the step at which the process of the first one dies; empty: none does
	leaves bool   // one client leaves before it has its answer, and comes again
	other  bool   // the last client asks for something else under the same key
}

// The bodies of a request, and of one that asks for something else.
const body, otherBody = `{"amount":7}`, `{"amount":8}`

// A mix says for which share of the keys each of the things happens that a plan has.
type mix struct{ dies, leaves, other float64 }

func (m mix) plan() plan {
	p := plan{leaves: rand.Float64() < m.leaves, other: rand.Float64() < m.other}
	if rand.Float64() < m.dies {
		p.dies = steps[rand.N(len(steps))]
	}
	return p
}

// A fleet is the processes of a contestant.
type fleet struct {
	name   string
	redis  string // the address of the proxy in front of it
	ledger ledger
	addrs  []string

	mu    sync.Mutex
	ended bool
	kill  map[int]func()
	over  sync.WaitGroup
}

// launch starts the processes. One that dies is started again.
func launch(name, redisAddr string, l ledger) (*fleet, error) {
	f := &fleet{name: name, redis: redisAddr, ledger: l, kill: make(map[int]func())}
	for range processes {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		f.addrs = append(f.addrs, free.Addr().String())
		if err := free.Close(); err != nil {
			return nil, err
		}
	}
	for i := range f.addrs {
		f.over.Go(func() { f.keepUp(i) })
	}
	return f, nil
}

// keepUp runs a process again and again.
func (f *fleet) keepUp(i int) {
	for {
		cmd := exec.Command(os.Args[0], "-serve", f.name, "-redis", f.redis, "-ledger", f.ledger.path, "-addr", f.addrs[i])
		cmd.Env = append(os.Environ(), asProcess+"=1")
		cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
		f.mu.Lock()
		if f.ended {
			f.mu.Unlock()
			return
		}
		err := cmd.Start()
		f.kill[i] = func() { _ = cmd.Process.Kill() }
		f.mu.Unlock()
		if err == nil {
			_ = cmd.Wait() // it was killed
		}
		time.Sleep(100 * time.Millisecond) // as a supervisor does
	}
}

// end kills the processes.
func (f *fleet) end() {
	f.mu.Lock()
	f.ended = true
	for _, kill := range f.kill {
		kill()
	}
	f.mu.Unlock()
	f.over.Wait()
}

// ready waits until all processes serve.
func (f *fleet) ready(ctx context.Context) error {
	for _, addr := range f.addrs {
		for {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err == nil {
				_ = conn.Close()
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%s does not serve: %w", f.name, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// pays sends the requests of a key.
func (f *fleet) pays(client *http.Client, key string, p plan) []outcome {
	got := make([]outcome, duplicates)
	var all sync.WaitGroup
	for i := range duplicates {
		c := caller{client: client, key: key, body: body}
		switch i {
		case 0:
			c.dies = p.dies
		case 1:
			c.leaves = p.leaves
		case duplicates - 1:
			if p.other {
				c.body = otherBody
			}
		}
		all.Go(func() {
			if i > 0 {
				time.Sleep(rand.N(within))
			}
			got[i] = f.asks(c)
		})
	}
	all.Wait()
	return got
}

// A caller is a client with a request. The first try has its process die at a step, or the caller leaves in the middle of it.
type caller struct {
	client    *http.Client
	key, body string
	dies      string
	leaves    bool
}

// asks asks until there is an answer, or it is of no use to ask again.
func (f *fleet) asks(c caller) (last outcome) {
	for began := time.Now(); time.Since(began) < patience; c.dies, c.leaves = "", false {
		answer, pause := f.ask(c)
		answer.asked = c.body
		if pause == 0 {
			return answer
		}
		last = answer
		time.Sleep(pause)
	}
	return last
}

// ask sends a request to one of the processes. It returns what came of it, and after which pause it makes sense to ask again.
func (f *fleet) ask(c caller) (outcome, time.Duration) {
	const soon = 50 * time.Millisecond
	stays := 6 * time.Second
	if c.leaves {
		stays = rand.N(2 * workTakes)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stays)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.addrs[rand.N(processes)]+"/pay", strings.NewReader(c.body))
	if err != nil {
		panic(err) // it is made of constants
	}
	r.Header.Set(keyHeader, c.key)
	r.Header.Set("Content-Type", "application/json")
	if c.dies != "" {
		r.Header.Set(dieHeader, c.dies)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return outcome{}, soon
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return outcome{}, soon
	}
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(text, &problem) // others answer with a text
	got := outcome{status: answer.StatusCode, code: problem.Code, body: string(text)}
	switch after, _ := strconv.Atoi(answer.Header.Get("Retry-After")); {
	case answer.StatusCode >= http.StatusInternalServerError:
		return got, soon
	case after > 0:
		return got, time.Duration(after) * time.Second
	}
	return got, 0
}

// run has a contestant answer the requests of some keys, and counts what becomes of them.
func run(name string, keys, atOnce int, m mix, redisAddr, ledgerPath string) (v verdict, took time.Duration, err error) {
	proxy, err := faultproxy.New(redisAddr)
	if err != nil {
		return v, 0, err
	}
	defer proxy.Close()
	l := ledger{ledgerPath}
	f, err := launch(name, proxy.Addr(), l)
	if err != nil {
		return v, 0, err
	}
	defer f.end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.ready(ctx); err != nil {
		return v, 0, err
	}
	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() { losesReplies(proxy, stop) })
	faults.Go(func() { goesAway(proxy, stop) })
	defer faults.Wait()
	defer close(stop)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	began := time.Now()
	names, results := make([]string, keys), make([][]outcome, keys)
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range keys {
		names[i] = uuid.NewString()
		p := m.plan()
		turns <- struct{}{}
		all.Go(func() {
			results[i] = f.pays(client, names[i], p)
			<-turns
		})
	}
	all.Wait()
	took = time.Since(began)
	paid, err := l.count()
	if err != nil {
		return v, took, err
	}
	for i, name := range names {
		v.judge(paid[name], results[i])
	}
	return v, took, nil
}

// losesReplies has replies of Redis be lost, and its connections end, now and then.
func losesReplies(proxy *faultproxy.Proxy, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100*time.Millisecond + rand.N(400*time.Millisecond)):
			proxy.DropReplies(1, faultproxy.Match("EVALSHA", "EVAL", "SET", "GET"))
		}
	}
}

// goesAway has Redis be silent, or refuse all connections, every few seconds for up to a second and a half.
func goesAway(proxy *faultproxy.Proxy, stop <-chan struct{}) {
	for silent := true; ; silent = !silent {
		select {
		case <-stop:
			return
		case <-time.After(2*time.Second + rand.N(4*time.Second)):
		}
		if silent {
			proxy.BlackHole(faultproxy.Both)
		} else {
			proxy.Refuse(true)
			proxy.Cut()
		}
		time.Sleep(100*time.Millisecond + rand.N(1400*time.Millisecond))
		proxy.Refuse(false)
		proxy.Heal()
	}
}
