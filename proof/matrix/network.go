package matrix

import (
	"time"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/proof/clock"
)

// network lists what can happen between workers and Redis.
func network() []Kind {
	hole := func(dir faultproxy.Direction, share float64) func(*Lane) []string {
		return func(l *Lane) []string {
			p := l.proxies[l.place()]
			p.BlackHole(dir)
			l.last(l.part(share))
			p.Heal()
			return nil
		}
	}
	delay := func(dir faultproxy.Direction, by, share float64) func(*Lane) []string {
		return func(l *Lane) []string {
			p := l.proxies[l.place()]
			p.Delay(dir, l.part(by))
			l.last(l.part(share))
			p.Delay(dir, 0)
			return nil
		}
	}
	text := redisstore.Scripts()
	renewals := faultproxy.MatchScript(text["renew"])
	acquires := faultproxy.Any(faultproxy.Match("SET"), faultproxy.MatchScript(text["acquire"])) // a free lock is taken by SET
	releases := faultproxy.MatchScript(text["give"], text["release"], text["releaseto"])
	drop := func(match func([]byte) bool, opts ...faultproxy.DropOption) func(*Lane) []string {
		return func(l *Lane) []string {
			l.drop(3, match, opts...)
			return nil
		}
	}
	return []Kind{
		{Name: "partition, shorter than the TTL", Do: hole(faultproxy.Both, 0.4)},
		{Name: "partition, longer than the TTL", Do: hole(faultproxy.Both, 1.6)},
		{Name: "requests swallowed", Do: hole(faultproxy.ToServer, 1.2)},
		{Name: "replies swallowed", Do: hole(faultproxy.ToClient, 1.2)},
		{Name: "slow both ways", Do: delay(faultproxy.Both, 0.1, 1)},
		{Name: "requests arrive after the TTL", Do: delay(faultproxy.ToServer, 1.3, 0.6)},
		{Name: "replies arrive late", Do: delay(faultproxy.ToClient, 0.5, 1)},
		{Name: "slow replies, then a partition", Do: func(l *Lane) []string {
			p := l.proxies[l.place()]
			p.Delay(faultproxy.ToClient, l.part(0.4))
			l.last(l.part(1))
			p.BlackHole(faultproxy.Both)
			l.last(l.part(1.3))
			p.Delay(faultproxy.ToClient, 0)
			p.Heal()
			return nil
		}},
		{Name: "replies to acquire lost, connection closed", Do: drop(acquires)},
		{Name: "replies to acquire lost, connection hangs", Do: drop(acquires, faultproxy.KeepOpen())},
		{Name: "replies to release lost, connection closed", Do: drop(releases)},
		{Name: "replies to release lost, connection hangs", Do: drop(releases, faultproxy.KeepOpen())},
		{Name: "replies to renewals lost", Do: drop(renewals)},
		{Name: "connections cut", Do: func(l *Lane) []string {
			l.proxies[l.place()].Cut()
			return nil
		}},
		{Name: "connections cut again and again", Do: func(l *Lane) []string {
			p := l.proxies[l.place()]
			for range 10 {
				p.Cut()
				l.last(l.TTL / 20)
			}
			return nil
		}},
		{Name: "unreachable", Do: func(l *Lane) []string {
			p := l.proxies[l.place()]
			p.Refuse(true)
			p.Cut()
			l.last(l.part(1.2))
			p.Refuse(false)
			return nil
		}},
		{Name: "all workers partitioned", Do: func(l *Lane) []string {
			for _, p := range l.proxies {
				p.BlackHole(faultproxy.Both)
				l.last(time.Duration(l.rnd.IntN(20)) * time.Millisecond)
			}
			l.last(l.part(0.8))
			for _, p := range l.proxies {
				p.Heal()
			}
			return nil
		}},
	}
}

// drop has some replies to one worker lost, one at least.
func (l *Lane) drop(most int, match func([]byte) bool, opts ...faultproxy.DropOption) {
	p := l.proxies[l.place()]
	before := p.Dropped()
	p.DropReplies(most, match, opts...)
	l.last(l.part(0.7))
	for deadline := clock.Now() + l.patience(); p.Dropped() == before; time.Sleep(2 * time.Millisecond) {
		if clock.Now() > deadline {
			l.tb.Errorf("%s: there was no reply to lose", l.Name)
			break
		}
	}
	p.DropReplies(0, nil)
}
