package outage

import (
	"context"
	"time"

	"github.com/lockmw/kit/internal/store"
)

const (
	// pingAfter is how long nothing is answered before a ping goes out. That must wait for
	// one answer for SilentAfter before the server counts as silent.
	pingAfter = 50 * time.Millisecond

	// DoubtAfter is how long a server has said nothing when it is in doubt. That is the case
	// when a command that has waited for SilentAfter ends, also if the process stood for
	// moments of that, which silence leaves out.
	DoubtAfter = SilentAfter - watchEvery

	// DoubtedFor is for how long a server's reach is in doubt at most, where pings and
	// their answers take their time: one ping goes out, and waits for an answer.
	DoubtedFor = pingAfter + SilentAfter + watchEvery

	pingEvery   = 250 * time.Millisecond // while the server is not reachable
	pingTimeout = time.Second            // of each answer that a ping waits for
	pingMost    = 30 * time.Second       // of a ping, whatever else it waits for
	pingsMost   = 4                      // under way to one server
)

// A ping is one that is under way.
type ping struct {
	waits    time.Time // since when it waits for one answer of the server; zero: for something else
	outdated bool      // the server has answered others since
	tooOld   bool      // it was ended because that was too long
	cancel   context.CancelFunc
}

// unanswered reports whether the ping waits for one answer of the server, as everybody
// does, and for too long to be on its way.
func (p *ping) unanswered(at time.Time) bool {
	return !p.waits.IsZero() && !p.outdated && at.Sub(p.waits) >= SilentAfter
}

// bound ends the ping if it has waited for one answer for too long.
func (p *ping) bound(at time.Time) {
	if !p.tooOld && !p.waits.IsZero() && at.Sub(p.waits) >= pingTimeout {
		p.tooOld = true
		p.cancel()
	}
}

// ping asks the server whether it is there, unless it was asked just now. The
// caller holds mu.
func (s *server) ping(at time.Time) {
	pause := pingEvery
	if !s.pinged {
		pause = watchEvery // it was answered, or is the first
	}
	if s.stopped || len(s.pings) >= pingsMost || at.Sub(s.pingedLast) < pause {
		return
	}
	s.well.Store(false)
	s.pinged, s.pingedLast = true, at
	p := &ping{waits: at}
	if s.pings == nil {
		s.pings = make(map[*ping]struct{})
	}
	s.pings[p] = struct{}{}
	var ctx context.Context
	ctx, p.cancel = context.WithTimeout(s.outage.ctx, pingMost)
	key := s.key
	s.outage.pings.Go(func() {
		defer p.cancel()
		err := s.outage.pinger.Ping(ctx, key, store.Progress{
			Heard: func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.hears()
			},
			Waits: func(server bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				p.waits, p.outdated = time.Time{}, false
				if server {
					p.waits, s.pinged = time.Now(), true
				}
			},
		})
		s.mu.Lock()
		delete(s.pings, p)
		if p.tooOld && err != nil {
			err = &store.Error{Err: errSilent, Evidence: store.Silent}
		}
		back := s.takeIn(err, true)
		s.mu.Unlock()
		back()
	})
}
