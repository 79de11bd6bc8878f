package wire

import (
	"net"
	"slices"
)

// Retire has later calls use connections that are dialled from now on: those that are
// open were set up with credentials that are out of date. Nothing is lost. Calls under
// way end over their connections, each of which is closed when it has none in flight. One
// that is being dialled serves those who wait for a connection when it is there, and nobody else.
func (p *Pool) Retire() {
	p.mu.Lock()
	defer p.unlock()
	p.generation++
	for _, k := range p.conns {
		if k != nil {
			p.retire(k)
		}
	}
}

// retire takes k out of its place: it takes no more calls, and is closed when it has none
// in flight. The caller holds mu.
func (p *Pool) retire(k *conn) {
	p.conns[slices.Index(p.conns, k)] = nil
	p.retired = append(p.retired, k)
	k.generation = noGeneration
	k.closeRetired()
	if len(p.retired) > 0 {
		p.keepTicking()
	}
}

// noGeneration is that of a connection that is retired.
const noGeneration = -1

// retired reports whether k takes no more calls: it was retired, or all were after it
// began to be dialled. The caller holds the pool's mutex.
func (k *conn) retired() bool { return k.generation != k.pool.generation }

// closeRetired closes k if it is retired and has nothing in flight. The caller holds the
// pool's mutex.
func (k *conn) closeRetired() {
	if k.retired() && k.inFlight.n == 0 {
		k.fail(net.ErrClosed)
	}
}

// all returns the connections that are open. The caller holds mu.
func (p *Pool) all() []*conn {
	all := slices.Clone(p.retired)
	for _, k := range p.conns {
		if k != nil {
			all = append(all, k)
		}
	}
	return all
}

// remove forgets k. The caller holds mu.
func (p *Pool) remove(k *conn) {
	if i := slices.Index(p.conns, k); i >= 0 {
		p.conns[i] = nil
	}
	if i := slices.Index(p.retired, k); i >= 0 {
		p.retired = slices.Delete(p.retired, i, i+1)
	}
}
