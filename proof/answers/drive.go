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
	"github.com/lockmw/kit/internal/test/stalls"
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
	shared bool   // another user has chosen the same key, and the first one uses it on another route, too
	calmly bool   // the others come only when the first one's first try is over
}

// The bodies of a request, and of one that asks for something else.
const body, otherBody = `{"amount":7}`, `{"amount":8}`

// The users.
const user, otherUser = "ann", "bob"

// A mix says for which share of the keys each of the things happens that a plan has, and what else happens.
type mix struct {
	dies, leaves, other, shared float64

	atOnce int      // how many keys at the same time
	faults bool     // Redis loses replies, and is away now and then
	inTurn []string // the steps at which processes die, in turn and calmly (see plan); nil: by chance
}

// plan is that of the key with that number.
func (m mix) plan(i int, steps []string) plan {
	p := plan{leaves: rand.Float64() < m.leaves, other: rand.Float64() < m.other, shared: rand.Float64() < m.shared, calmly: m.inTurn != nil}
	switch {
	case m.inTurn != nil:
		p.dies = m.inTurn[i%len(m.inTurn)]
	case rand.Float64() < m.dies:
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

	mu     sync.Mutex
	ended  bool
	kill   map[int]func()
	deaths []death
	over   sync.WaitGroup
}

// A death is that of a process.
type death struct {
	process int
	at      time.Time
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
			f.mu.Lock()
			f.deaths = append(f.deaths, death{i, time.Now()})
			f.mu.Unlock()
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

// A payment is what its clients got, and which processes they have asked.
type payment struct {
	clients      []outcome
	began, ended time.Time

	mu    sync.Mutex
	asked map[int]time.Time // when each process was asked first
}

// visits notes that a process is asked.
func (p *payment) visits(process int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, before := p.asked[process]; !before {
		p.asked[process] = time.Now()
	}
}

// disturbed is how many processes died that were asked for the payment, until it had its end.
func (f *fleet) disturbed(p *payment) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.deaths {
		if asked, was := p.asked[d.process]; was && !d.at.Before(asked) && d.at.Before(p.ended) {
			n++
		}
	}
	return n
}

// pays sends the requests of a key. It returns what came of each payment, by its id: those of other users and on other routes are others.
func (f *fleet) pays(client *http.Client, key string, p plan) map[string]*payment {
	all := make(map[string]*payment)
	tried := make(chan struct{}) // the first try of the first client is over
	if !p.calmly {
		close(tried)
	}
	var callers sync.WaitGroup
	add := func(c caller, n int) {
		of := &payment{clients: make([]outcome, n), began: time.Now(), asked: make(map[int]time.Time)}
		all[c.user+c.route+"/"+key] = of
		c.client, c.key, c.of = client, key, of
		for i := range n {
			c := p.change(c, i)
			if i == 0 && c.user == user && c.route == routes[0] && p.calmly {
				c.tried = tried
			}
			callers.Go(func() {
				if i > 0 || c.user != user || c.route != routes[0] {
					<-tried
					time.Sleep(rand.N(within))
				}
				of.clients[i] = f.asks(c)
			})
		}
	}
	add(caller{user: user, route: routes[0], body: body}, duplicates)
	if p.shared {
		add(caller{user: otherUser, route: routes[0], body: body}, duplicates/2)
		add(caller{user: user, route: routes[1], body: body}, duplicates/2)
	}
	callers.Wait()
	for _, of := range all {
		of.ended = time.Now()
	}
	return all
}

// change makes of a client the one with that number of the first payment. Those of others are as they are.
func (p plan) change(c caller, i int) caller {
	if c.user != user || c.route != routes[0] {
		return c
	}
	switch {
	case i == 0:
		c.dies = p.dies
	case i == 1:
		c.leaves = p.leaves
	case i == duplicates-1 && p.other:
		c.body = otherBody
	}
	return c
}

// A caller is a client with a request. The first try has its process die at a step, or the caller leaves in the middle of it.
type caller struct {
	client                 *http.Client
	key, user, route, body string
	of                     *payment
	dies                   string
	leaves                 bool
	tried                  chan<- struct{} // closed behind the first try; nil: nobody waits for it
}

// asks asks until there is an answer, or it is of no use to ask again.
func (f *fleet) asks(c caller) (last outcome) {
	for began := time.Now(); time.Since(began) < patience; c.dies, c.leaves = "", false {
		answer, pause := f.ask(c)
		if c.tried != nil {
			close(c.tried)
			c.tried = nil
		}
		answer.asked = c.body + " " + c.user + " " + c.route + " "
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
	process := rand.N(processes)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.addrs[process]+c.route, strings.NewReader(c.body))
	if err != nil {
		panic(err) // it is made of constants
	}
	c.of.visits(process)
	r.Header.Set(keyHeader, c.key)
	r.Header.Set(userHeader, c.user)
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
func run(name string, keys int, m mix, redisAddr, ledgerPath string) (v verdict, took time.Duration, err error) {
	proxy, err := faultproxy.New(redisAddr)
	if err != nil {
		return v, 0, err
	}
	defer proxy.Close()
	l := ledger{ledgerPath}
	if err := l.prepare(); err != nil {
		return v, 0, err
	}
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
	if m.faults {
		defer disturb(proxy)()
	}
	machine := stalls.Start()
	defer machine.Stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	began := time.Now()
	results := make([]map[string]*payment, keys)
	turns := make(chan struct{}, m.atOnce)
	var all sync.WaitGroup
	for i := range keys {
		p := m.plan(i, stepsOf(name))
		turns <- struct{}{}
		all.Go(func() {
			results[i] = f.pays(client, uuid.NewString(), p)
			<-turns
		})
	}
	all.Wait()
	took = time.Since(began)
	histories, err := l.read()
	if err != nil {
		return v, took, err
	}
	for _, of := range results {
		for id, p := range of {
			c := circumstances{died: f.disturbed(p), faults: m.faults, stalled: machine.Longest(p.began, p.ended) > ttl/4, tells: name == tellsUncertain}
			v.judge(histories[id], p.clients, c)
		}
	}
	return v, took, nil
}

// disturb has Redis lose replies, and be away now and then, until end is called.
func disturb(proxy *faultproxy.Proxy) (end func()) {
	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() { losesReplies(proxy, stop) })
	faults.Go(func() { goesAway(proxy, stop) })
	return func() {
		close(stop)
		faults.Wait()
	}
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
