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

// pays sends the requests of a key, one of which has its process die at a step; empty: none does.
func (f *fleet) pays(client *http.Client, key, dies string) []outcome {
	got := make([]outcome, duplicates)
	var all sync.WaitGroup
	for i := range duplicates {
		all.Go(func() {
			if i > 0 {
				time.Sleep(rand.N(within))
				got[i] = f.asks(client, key, "")
				return
			}
			got[i] = f.asks(client, key, dies)
		})
	}
	all.Wait()
	return got
}

// asks is a client that asks until it has an answer, or it is of no use to ask again.
func (f *fleet) asks(client *http.Client, key, dies string) (last outcome) {
	for began := time.Now(); time.Since(began) < patience; dies = "" {
		answer, pause := f.ask(client, key, dies)
		if pause == 0 {
			return answer
		}
		last = answer
		time.Sleep(pause)
	}
	return last
}

// ask sends a request to one of the processes. It returns what came of it, and after which pause it makes sense to ask again.
func (f *fleet) ask(client *http.Client, key, dies string) (outcome, time.Duration) {
	const soon = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.addrs[rand.N(processes)]+"/pay", strings.NewReader(`{"amount":7}`))
	if err != nil {
		panic(err) // it is made of constants
	}
	r.Header.Set(keyHeader, key)
	r.Header.Set("Content-Type", "application/json")
	if dies != "" {
		r.Header.Set(dieHeader, dies)
	}
	answer, err := client.Do(r)
	if err != nil {
		return outcome{}, soon
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return outcome{}, soon
	}
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(body, &problem) // others answer with a text
	got := outcome{status: answer.StatusCode, code: problem.Code, body: string(body)}
	switch after, _ := strconv.Atoi(answer.Header.Get("Retry-After")); {
	case answer.StatusCode >= http.StatusInternalServerError:
		return got, soon
	case after > 0:
		return got, time.Duration(after) * time.Second
	}
	return got, 0
}

// run has a contestant answer the requests of some keys, and counts what becomes of them. share is how many of them have a process die.
func run(name string, keys, atOnce int, share float64, redisAddr, ledgerPath string) (v verdict, took time.Duration, err error) {
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
	defer faults.Wait()
	defer close(stop)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	began := time.Now()
	names, results := make([]string, keys), make([][]outcome, keys)
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range keys {
		names[i] = uuid.NewString()
		dies := ""
		if rand.Float64() < share {
			dies = steps[rand.N(len(steps))]
		}
		turns <- struct{}{}
		all.Go(func() {
			results[i] = f.pays(client, names[i], dies)
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
