package combos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
)

// sight is how a fault looks to the Lockers whose Redis it strikes. What a caller
// may be told follows from it, see judge.go.
type sight int

const (
	well    sight = iota // Redis answers; at most, a connection has to be made anew
	broken               // connections end with commands on them, and can be made anew
	refuses              // Redis answers, and refuses
	silent               // no answer comes
	away                 // connections are refused, or Redis says that it loads
	closes               // connections are accepted and closed: by a load balancer, say, that has no server
	late                 // answers come late
	moves                // a part of the keys is on its way to another node
	elects               // no master, or two
)

// fault is one kind of fault. begin has it happen. end ends it, after the time that
// it is to last; it does nothing if the fault has ended by itself.
type fault struct {
	name    string
	sites   []string // where it can be injected
	lengths []string
	sees    sight
	server  bool // it strikes everybody who uses the server, not only who comes through the doors
	idle    bool // it strikes when no command is under way
	lasting bool // connections that it struck stay as they are, until a command meets them

	repliesCome bool // what the server says arrives, such as messages

	begin func(r *round)
	end   func(r *round)
}

var (
	onlySingle = []string{plainSite, tlsSite}
	noElection = []string{plainSite, tlsSite, clusterSite}
	anywhere   = []string{plainSite, tlsSite, clusterSite, sentinelSite}
	everywhere = []string{plainSite, tlsSite, clusterSite, sentinelSite, nodeSite}

	moment   = []string{""}
	short    = []string{hiccup}
	anyTime  = []string{hiccup, hiccup, brief, long}
	notShort = []string{brief, long}
)

// Names of faults that other files ask for.
const (
	frozenMaster = "master frozen, replaced, and going on"
	migration    = "slot in migration"
	writesPaused = "CLIENT PAUSE WRITE"
)

func nothing(*round) {}

// configured is a fault that a command to all nodes begins and another one ends.
func configured(begin, end []any) (func(r *round), func(r *round)) {
	return func(r *round) { r.site.command(begin...) }, func(r *round) { r.site.command(end...) }
}

func words(text string) (args []any) {
	for word := range strings.FieldsSeq(text) {
		args = append(args, word)
	}
	return args
}

// faults lists them all.
func faults() []fault {
	hole := func(dir faultproxy.Direction) (func(*round), func(*round)) {
		return func(r *round) { r.site.hole(dir) }, func(r *round) { r.site.fill() }
	}
	again := func(times int, pause time.Duration, do func(r *round)) func(*round) {
		return func(r *round) {
			for range times {
				do(r)
				time.Sleep(pause)
			}
		}
	}
	cut := func(r *round) { r.site.each((*faultproxy.Proxy).Cut) }
	lose := func(opts ...faultproxy.DropOption) func(*round) {
		return func(r *round) {
			n := 1 + r.rnd.IntN(20)
			r.site.each(func(proxy *faultproxy.Proxy) {
				proxy.DropReplies(n, faultproxy.Match("EVALSHA", "EVAL", "SET"), opts...)
			})
		}
	}
	one := func(dir faultproxy.Direction) func(*round) {
		return func(r *round) {
			r.site.each(func(proxy *faultproxy.Proxy) {
				if c := proxy.Busiest(); c != nil {
					c.Stall(dir)
				}
			})
		}
	}
	heal := func(r *round) { r.site.each((*faultproxy.Proxy).Heal) }
	inBytes := func(on bool) func(*round) {
		return func(r *round) {
			r.site.each(func(proxy *faultproxy.Proxy) { proxy.InBytes(faultproxy.Both, on) })
		}
	}
	inMiddle := faultproxy.Partly(rand.IntN)
	keep := func(r *round) { r.site.each(func(proxy *faultproxy.Proxy) { proxy.DropReplies(0, nil) }) }
	list := []fault{
		{name: "no fault", sites: everywhere, lengths: moment, sees: well, begin: nothing, end: nothing},
		{name: "connections cut", sites: everywhere, lengths: moment, sees: broken, begin: cut, end: nothing},
		{name: "connections cut again and again", sites: anywhere, lengths: moment, sees: broken, begin: again(5, 20*time.Millisecond, cut), end: nothing},
		{name: "idle connections closed by the server", sites: anywhere, lengths: moment, sees: well, idle: true, begin: cut, end: nothing},
		{name: "replies lost, connection closed", sites: anywhere, lengths: moment, sees: broken, begin: lose(), end: func(r *round) {
			time.Sleep(50 * time.Millisecond)
			keep(r)
		}},
		{name: "replies lost, connection hangs", sites: anywhere, lengths: []string{brief}, sees: silent, lasting: true, begin: lose(faultproxy.KeepOpen()), end: keep},
		{name: "replies cut in their middle", sites: anywhere, lengths: moment, sees: broken, begin: lose(inMiddle), end: func(r *round) {
			time.Sleep(50 * time.Millisecond)
			keep(r)
		}},
		{name: "replies stalled on one connection", sites: anywhere, lengths: []string{hiccup, brief}, sees: silent, begin: one(faultproxy.ToClient), end: heal},
		{name: "requests stalled on one connection", sites: anywhere, lengths: []string{hiccup, brief}, sees: silent, begin: one(faultproxy.ToServer), end: heal},
		{name: "a byte at a time", sites: anywhere, lengths: []string{brief}, sees: late, begin: inBytes(true), end: inBytes(false)},
		{name: "connections closed at once", sites: anywhere, lengths: notShort, sees: closes, begin: func(r *round) {
			r.site.each(func(proxy *faultproxy.Proxy) { proxy.Refuse(true); proxy.Cut() })
		}, end: func(r *round) { r.site.each(func(proxy *faultproxy.Proxy) { proxy.Refuse(false) }) }},
		{name: "replies late", sites: anywhere, lengths: []string{brief}, sees: late, begin: func(r *round) {
			by := time.Duration(100+r.rnd.IntN(500)) * time.Millisecond
			r.site.each(func(proxy *faultproxy.Proxy) { proxy.Delay(faultproxy.ToClient, by) })
		}, end: func(r *round) { r.site.distance(r.c.Distance) }},
		{name: "SCRIPT FLUSH again and again", sites: anywhere, lengths: moment, sees: well, server: true,
			begin: again(5, 10*time.Millisecond, func(r *round) { r.site.command("SCRIPT", "FLUSH") }), end: nothing},
		{name: "CLIENT KILL TYPE normal", sites: anywhere, lengths: moment, sees: broken, server: true,
			begin: func(r *round) { r.site.command(words("CLIENT KILL TYPE normal SKIPME yes")...) }, end: nothing},
		{name: "idle connections killed by CLIENT KILL", sites: anywhere, lengths: moment, sees: well, server: true, idle: true,
			begin: func(r *round) { r.site.command(words("CLIENT KILL TYPE normal SKIPME yes")...) }, end: nothing},
		{name: "CLIENT KILL TYPE pubsub", sites: anywhere, lengths: moment, sees: well, server: true,
			begin: again(3, 20*time.Millisecond, func(r *round) { r.site.command(words("CLIENT KILL TYPE pubsub")...) }), end: nothing},
		{name: frozenMaster, sites: []string{sentinelSite}, lengths: moment, sees: elects, server: true, begin: (*round).replaceMaster, end: nothing},
		{name: migration, sites: []string{clusterSite}, lengths: moment, sees: moves, server: true, begin: (*round).migrate, end: nothing},
		{name: "a slot moved", sites: []string{clusterSite}, lengths: moment, sees: moves, server: true, begin: (*round).moveSlot, end: nothing},
		{name: "Redis killed and restarted with its file", sites: onlySingle, lengths: moment, sees: away, server: true,
			begin: func(r *round) { r.site.nodes[0].Kill() }, end: func(r *round) { r.check(r.site.nodes[0].Restart()) }},
		{name: "LOADING", sites: onlySingle, lengths: notShort, sees: away, server: true, begin: (*round).load, end: (*round).loaded},
		{name: "BUSY", sites: onlySingle, lengths: anyTime, sees: refuses, server: true, begin: (*round).busy, end: (*round).killScript},
	}
	add := func(name string, sites, lengths []string, sees sight, server bool, begin, end func(r *round)) {
		list = append(list, fault{name: name, sites: sites, lengths: lengths, sees: sees, server: server, begin: begin, end: end})
	}
	both := func(name string, sites []string, begin, end string) {
		b, e := configured(words(begin), words(end))
		add(name, sites, anyTime, refuses, true, b, e)
	}
	for name, dir := range map[string]faultproxy.Direction{"everything": faultproxy.Both, "requests": faultproxy.ToServer, "replies": faultproxy.ToClient} {
		b, e := hole(dir)
		f := fault{sites: anywhere, sees: silent, repliesCome: dir == faultproxy.ToServer}
		f.name, f.lengths, f.begin, f.end = name+" swallowed", notShort, b, e
		list = append(list, f)
		f.name, f.lengths, f.begin, f.end = name+" stalled", anyTime, func(r *round) {
			r.site.each(func(proxy *faultproxy.Proxy) { proxy.Stall(dir) })
		}, heal
		list = append(list, f)
	}
	stop := func(r *round) {
		for _, node := range r.site.nodes {
			r.check(node.Stop())
		}
	}
	goOn := func(r *round) {
		for _, node := range r.site.nodes {
			r.check(node.Cont())
		}
	}
	add("Redis stopped", onlySingle, anyTime, silent, true, stop, goOn)
	add("Redis stopped", []string{clusterSite, sentinelSite}, short, silent, true, stop, goOn)
	pause := func(mode string) func(r *round) {
		return func(r *round) {
			r.site.command("CLIENT", "PAUSE", r.length.Milliseconds(), mode)
		}
	}
	add("CLIENT PAUSE ALL", onlySingle, anyTime, silent, true, pause("ALL"), nothing)
	add("CLIENT PAUSE ALL", []string{clusterSite, sentinelSite}, short, silent, true, pause("ALL"), nothing)
	add(writesPaused, noElection, anyTime, silent, true, pause("WRITE"), nothing)
	both("OOM", anywhere, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")
	both("NOREPLICAS", anywhere, "CONFIG SET min-replicas-to-write 5", "CONFIG SET min-replicas-to-write 0")
	both("READONLY", onlySingle, "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")
	both("NOPERM", anywhere, "ACL SETUSER default -@scripting", "ACL SETUSER default +@scripting")
	both("max clients", onlySingle, "CONFIG SET maxclients 2", "CONFIG SET maxclients 10000")
	add("MISCONF", onlySingle, anyTime, refuses, true, (*round).misconfigure, func(r *round) {
		r.site.command("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	})
	return list
}

// faultsOf returns what may be injected at a site, by name, so that a seed draws
// the same each time.
func faultsOf(site string) []fault {
	list := slices.DeleteFunc(faults(), func(f fault) bool { return !slices.Contains(f.sites, site) })
	slices.SortFunc(list, func(a, b fault) int { return cmp.Compare(a.name, b.name) })
	return list
}

// faultOf returns the fault of a combination.
func faultOf(c Combination) fault {
	for _, f := range faultsOf(c.Site) {
		if f.name == c.Fault {
			return f
		}
	}
	panic(fmt.Sprintf("no fault %q at %s", c.Fault, c.Site))
}

// misconfigure has a save fail, after which Redis takes no writes if told so.
func (r *round) misconfigure() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r.check(r.site.nodes[0].FailToSave(ctx))
	r.site.command("CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
}

// load has Redis read its file again, for about as long as the fault lasts.
func (r *round) load() {
	delay := r.length * 2 / 3 / fillers // Redis sleeps this long for each key, and each sleep takes longer than that
	r.site.command("CONFIG", "SET", "key-load-delay", delay.Microseconds())
	r.faulting.Go(func() {
		client := r.site.nodes[0].Client(r.site.tb, patient)
		defer client.Close()
		_ = client.Do(context.Background(), "DEBUG", "LOADAOF").Err()
	})
}

// loaded has Redis read on at full speed, and waits until it has read all.
func (r *round) loaded() {
	r.site.command("CONFIG", "SET", "key-load-delay", 0)
	r.faulting.Wait()
}

// busy has Redis run a script that does not end.
func (r *round) busy() {
	r.faulting.Go(func() {
		client := r.site.nodes[0].Client(r.site.tb, patient)
		defer client.Close()
		_ = client.Eval(context.Background(), "while true do end", nil).Err()
	})
}

// killScript ends the script that busy has begun.
func (r *round) killScript() {
	for range 100 {
		err := r.site.admins[0].Do(context.Background(), "SCRIPT", "KILL").Err()
		if err == nil || strings.HasPrefix(err.Error(), "NOTBUSY") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.faulting.Wait()
}

// slotKey draws the lock whose slot is to move: mine, which the round's own Locker holds all along, or the first key of
// the first caller of a burst.
func (r *round) slotKey() string {
	name := pick(r.rnd, "mine", r.names(0)[0])
	return r.namespace + ":{" + name + "}"
}

// migrate leaves a slot in two places for longer than the TTL.
func (r *round) migrate() {
	r.move(r.namespace+":{mine}", func() { time.Sleep(r.c.TTL*3/2 + time.Duration(r.rnd.IntN(300))*time.Millisecond) })
}

// moveSlot moves a slot as fast as that is done.
func (r *round) moveSlot() {
	r.move(r.slotKey(), func() { time.Sleep(time.Duration(r.rnd.IntN(100)) * time.Millisecond) })
}

// move moves the slot of key to another node. during is called while it is in two
// places.
func (r *round) move(key string, during func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	from, err := r.site.shards.Owner(ctx, key)
	r.check(err)
	to := r.site.nodes[r.rnd.IntN(len(r.site.nodes))]
	for to == from {
		to = r.site.nodes[r.rnd.IntN(len(r.site.nodes))]
	}
	r.check(r.site.shards.Move(ctx, key, to, during))
}

// patient is for commands that do not come back soon.
func patient(o *redis.Options) { o.ReadTimeout, o.MaxRetries = -1, -1 }
