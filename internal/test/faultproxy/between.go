package faultproxy

// gap is one call of Between.
type gap struct {
	match func(request []byte) bool
	do    func(earlier, request []byte)
}

// Between has do run before each request for which match returns true, when the
// replies to all requests before it on its connection have come. So what do has the
// server carry out comes between two requests, also if the client sent both in one
// write. do gets the request before, which may be empty, and the one that waits. It
// may run concurrently with itself, for requests of several connections, and must
// not wait for what passes through the same connection.
//
// A new call takes the place of an earlier one; a nil match ends it.
func (p *Proxy) Between(match func(request []byte) bool, do func(earlier, request []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gap = nil
	if match != nil {
		p.gap = &gap{match, do}
	}
}

// between does what comes before a request.
func (l *link) between(f frame) {
	l.proxy.mu.Lock()
	g := l.proxy.gap
	l.proxy.mu.Unlock()
	if g == nil || !g.match(f.bytes) {
		return
	}
	l.mu.Lock()
	for len(l.owed.list) > 0 && l.ctx.Err() == nil {
		l.answered.Wait()
	}
	l.mu.Unlock()
	if l.ctx.Err() == nil {
		g.do(l.earlier, f.bytes)
	}
}
