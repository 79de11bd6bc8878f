package commands

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// A scene is a scenario that runs: a server for each node, processes that reach them by
// proxies, and the commands that the processes have sent, step by step.
type scene struct {
	*testing.T

	servers []*redistest.Server
	all     strings.Builder // the steps so far, masked
	masks   masks

	mu    sync.Mutex
	sorts bool      // the present step sends several commands at the same time
	sent  []command // in the present step
}

// A command is one of a process, to a node if there are several.
type command struct {
	from string
	args []string
}

// A process is a Locker whose commands are recorded.
type process struct {
	*lockmw.Locker

	name    string
	scene   *scene
	proxies []*faultproxy.Proxy // to each server
}

// newScene starts so many servers, which know all scripts already unless fresh.
func newScene(t *testing.T, servers int, fresh bool) *scene {
	t.Helper()
	s := &scene{T: t, masks: masks{}}
	for range servers {
		server := redistest.Real(t)
		s.servers = append(s.servers, server)
		if fresh {
			continue
		}
		client := server.Client(t)
		for _, text := range redisstore.Scripts() {
			if err := client.ScriptLoad(t.Context(), text).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// process opens a Locker.
func (s *scene) process(name string) *process {
	s.Helper()
	p := &process{name: name, scene: s}
	var clients []redis.UniversalClient
	for i, server := range s.servers {
		from := name
		if len(s.servers) > 1 {
			from += "→" + strconv.Itoa(i+1)
		}
		proxy := faultproxy.Start(s, server.Addr())
		proxy.Between(func(request []byte) bool { // called for each request in turn, before it goes to the server
			s.note(from, request)
			return false
		}, nil)
		p.proxies = append(p.proxies, proxy)
		clients = append(clients, redistest.NewClient(s, proxy.Addr()))
	}
	var err error
	if len(clients) == 1 {
		p.Locker, err = lockmw.New(clients[0], lockmw.WithInstance(name))
	} else {
		p.Locker, err = lockmw.NewQuorum(clients, lockmw.WithInstance(name))
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = p.Close(s.Context()) }) // a second time, but where the test has failed
	return p
}

// used is process for one that has taken a lock before, so that nothing of what is done
// once is left to do, and that hears of its turn.
func (s *scene) used(name string) *process {
	s.Helper()
	p := s.process(name)
	key := "before " + name
	for done, tries := 0, 0; done < 2; tries++ { // the first goes by a script, and tells the server's clock
		if tries == 20 {
			s.Fatal("there is a node that is never asked")
		}
		lease, began := s.acquire(p, key, waits), time.Now()
		all := func() bool { return s.asked() >= len(s.servers) }
		await.Until(s, "asked at all nodes", func() bool { return all() || time.Since(began) > 2*time.Second })
		s.release(lease)
		if all() { // a node that could not be connected to within a second is not asked
			await.Until(s, "given back at all nodes", func() bool { return s.count("release", "give") >= len(s.servers) })
			done++
		}
		s.discard()
	}
	if len(s.servers) > 1 { // a quorum has no subscription
		return p
	}
	await.Until(s, "subscribed, and known to be", func() bool {
		if !p.Stats().Subscribed {
			return false
		}
		lease := s.acquire(p, key, once)
		_, _, err := p.Acquire(s.Context(), key, once)
		s.release(lease)
		return err != nil && s.saidHow(p) == "v"
	})
	await.Until(s, "asked for its maxmemory-policy", func() bool { return p.proxies[0].Commands()["INFO"] > 0 })
	s.discard()
	return p
}

// saidHow returns how a process has last said that it hears: ARGV[4] of acquire.lua.
func (s *scene) saidHow(p *process) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	how := ""
	for _, c := range s.sent {
		if at := slices.Index(c.args, "acquire"); c.from == p.name && at == 1 {
			how = c.args[len(c.args)-1][:1]
		}
	}
	return how
}

// count returns how often scripts were sent in the present step.
func (s *scene) count(scripts ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sent {
		if len(c.args) > 1 && slices.Contains(scripts, c.args[1]) {
			n++
		}
	}
	return n
}

// asked returns how often a server was asked for a lock, to the end: by a script, or by
// the plain commands, of which GET is the last.
func (s *scene) asked() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sent {
		script := strings.HasPrefix(c.args[0], "EVAL") && c.args[1] != "release" && c.args[1] != "give"
		if script || c.args[0] == "GET" {
			n++
		}
	}
	return n
}

func (s *scene) acquire(p *process, key string, policy lockmw.Policy) *lockmw.Lease {
	s.Helper()
	_, lease, err := p.Acquire(s.Context(), key, policy)
	if err != nil {
		s.Fatal(err)
	}
	return lease
}

func (s *scene) release(lease *lockmw.Lease) {
	s.Helper()
	if err := lease.Release(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// confirmed waits until the first renewal of a lease that was handed over, within a second.
// The hand-over is good for seconds only, the renewal for the policy's TTL of a minute.
func (s *scene) confirmed(lease *lockmw.Lease) {
	s.Helper()
	const handedOver = 10 * time.Second // is longer than any hand-over is good for
	await.Until(s, "confirmed", func() bool { return time.Until(lease.ValidUntil()) > handedOver })
}

// ofTheMoment are commands whose number depends on how fast the machine is just now: the
// set-up of connections, pings of a server that is late, and those of a subscription, with the
// question whether the server still counts it, some time after a connection has broken. An
// EXISTS of one key is such a ping.
var ofTheMoment = []string{"HELLO", "AUTH", "CLIENT", "ROLE", "PING", "PUBSUB"}

// releaseWithTerms is how many arguments an EVALSHA of release.lua has that also leaves the
// queue, less one: its name, the script's, the number of keys, five keys, and three of ARGV.
const releaseWithTerms = 11

func (s *scene) note(from string, request []byte) {
	var args []string
	for _, arg := range faultproxy.Args(request) {
		args = append(args, string(arg))
	}
	if len(args) == 0 {
		return
	}
	args[0] = strings.ToUpper(args[0])
	passing := slices.Contains(ofTheMoment, args[0]) || args[0] == "EXISTS" && len(args) == 2
	if len(s.servers) > 1 && len(args) > releaseWithTerms { // at a node of a quorum that has answered late
		passing = true
	}
	if strings.HasPrefix(args[0], "EVAL") {
		args = readable(args)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !passing {
		s.sent = append(s.sent, command{from, args})
	}
}

// scriptNames are the names of the scripts by their texts and their hashes.
var scriptNames = sync.OnceValue(func() map[string]string {
	names := make(map[string]string)
	for name, text := range redisstore.Scripts() {
		sum := sha1.Sum([]byte(text))
		names[text], names[hex.EncodeToString(sum[:])] = name, name
	}
	return names
})

// readable returns the arguments of EVAL or EVALSHA with the script's name, and with a mark
// in the place of the arguments that say how long something has lasted.
func readable(args []string) []string {
	name, known := scriptNames()[args[1]]
	if !known {
		return args
	}
	args = slices.Clone(args)
	args[1] = name
	keys, err := strconv.Atoi(args[2])
	if err != nil {
		return args
	}
	lasted := map[string]int{"acquire": 5, "releaseto": 5, "release": 5}[name] // its place in ARGV
	if at := 2 + keys + lasted; lasted > 0 && at < len(args) && args[at] != "0" {
		args[at] = "<duration>"
	}
	return args
}

// step runs a part of the scenario, and writes down what was sent meanwhile. What goes to
// several servers at the same time stands together by sender and node.
func (s *scene) step(what string, do func()) {
	s.Helper()
	do()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.sent, func(a, b command) int {
		if c := cmp.Compare(a.from, b.from); c != 0 || !s.sorts {
			return c
		}
		return slices.Compare(a.args, b.args)
	})
	fmt.Fprintf(&s.all, "# %s\n", what)
	for _, c := range s.sent {
		fmt.Fprintf(&s.all, "%s  %s\n", c.from, s.masks.mask(c.args))
	}
	s.sorts, s.sent = false, nil
}

// anyOrder is step for one that sends several commands at the same time, so many in all.
func (s *scene) anyOrder(what string, commands int, do func()) {
	s.Helper()
	s.step(what, func() {
		s.sorts = true
		do()
		await.Until(s, "they are sent", s.sends(commands))
	})
}

// begin runs do beside the test, in a step that ends with a condition. The returned
// function waits for the end of do.
func (s *scene) begin(what string, until func() bool, do func()) (end func()) {
	s.Helper()
	ended := make(chan struct{})
	s.step(what, func() {
		go func() {
			defer close(ended)
			do()
		}()
		await.Until(s, what, until)
	})
	return func() {
		s.Helper()
		await.Receive(s, "the end of "+what, ended)
	}
}

// sends is the condition that the present step has sent so many commands.
func (s *scene) sends(n int) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sent) >= n
	}
}

// queued is the condition that so many calls wait for a key in their process.
func (p *process) queued(key string, n int) func() bool {
	return func() bool { return seam.Waiting(p.Locker, key) == n }
}

func (s *scene) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = nil
}

// masks replace what differs from run to run by a name, the same for the same.
type masks map[string]string

var (
	tokens = regexp.MustCompile(`([a-z]+)-[a-z2-7]{10}(\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?`)
	taken  = regexp.MustCompile(`:~\d{16}\b`) // behind a token: about when it took the lock
	fences = regexp.MustCompile(`\b\d{16}\b`) // or other times; which they are is a matter of the moment
)

// mask returns a command in a line, without tokens, processes' names and times.
func (m masks) mask(args []string) string {
	var line []string
	for _, arg := range args {
		arg = tokens.ReplaceAllStringFunc(arg, func(found string) string {
			parts := tokens.FindStringSubmatch(found)
			if parts[2] == "" {
				return parts[1]
			}
			return parts[1] + "." + m.name("token", found)
		})
		arg = taken.ReplaceAllStringFunc(arg, func(found string) string { return ":~" + m.name("time", found) })
		arg = fences.ReplaceAllString(arg, "<fence>")
		if arg == "" || strings.ContainsAny(arg, " \n\"") {
			arg = strconv.Quote(arg)
		}
		line = append(line, arg)
	}
	return strings.Join(line, " ")
}

// name returns the name of a text: its kind, and a number by first occurrence.
func (m masks) name(kind, text string) string {
	if m[text] == "" {
		n := 1
		for _, name := range m {
			if strings.HasPrefix(name, kind) {
				n++
			}
		}
		m[text] = kind + strconv.Itoa(n)
	}
	return m[text]
}
