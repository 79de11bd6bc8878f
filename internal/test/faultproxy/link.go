package faultproxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// link is one client's connection together with the one to the server.
type link struct {
	proxy  *Proxy
	client net.Conn
	over   chan struct{} // closed when its goroutines have ended

	ctx    context.Context // done when the link is closed
	cancel context.CancelFunc

	raw      atomic.Bool  // it no longer speaks RESP
	requests atomic.Int64 // that were forwarded
	earlier  []byte       // the request before; of up's goroutine that delivers

	mu       sync.Mutex
	server   net.Conn // nil before it was dialled
	owed     expectations
	answered sync.Cond // a reply came, or the link is closed

	up, down *pipe
}

func newLink(p *Proxy, client net.Conn) *link {
	l := &link{proxy: p, client: client, over: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.answered.L = &l.mu
	l.up, l.down = &pipe{link: l, way: &p.toServer}, &pipe{link: l, way: &p.toClient}
	return l
}

func (l *link) closed() <-chan struct{} { return l.ctx.Done() }

// close closes both sides. Everything that serves the link then ends by itself.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
	l.answered.Broadcast()
	_ = l.client.Close() // the connection is given up; its peer may have been first
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) fail(err error) {
	l.proxy.note(err)
	l.close()
}

// serve forwards until both sides have ended or the link was closed. It returns
// when none of its goroutines is left.
func (l *link) serve() {
	defer l.giveBackOwed()
	defer l.close()
	if l.proxy.toServer.blocked() != nil {
		l.proxy.gaps.Add(1)
		_, _ = io.Copy(io.Discard, l.client) // dead, but open until the client leaves
		return
	}
	server, ok := l.dial()
	if !ok {
		return
	}
	l.up.src, l.up.dst, l.up.read, l.up.wait, l.up.hand = l.client, server, readRequest, l.between, l.request
	l.down.src, l.down.dst, l.down.read, l.down.hand = server, l.client, l.readReply, l.reply
	var pumps sync.WaitGroup
	for _, d := range []*pipe{l.up, l.down} {
		d.queue = make(chan parcel, queueLength)
		pumps.Go(d.receive)
		pumps.Go(d.deliver)
	}
	pumps.Wait()
}

func (l *link) dial() (net.Conn, bool) {
	server, err := (*l.proxy.dial.Load())(l.ctx)
	if err != nil {
		return nil, false // no fault of the proxy: the client finds its connection closed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil { // close came before there was a server to close
		_ = server.Close()
		return nil, false
	}
	l.server = server
	return server, true
}

// giveBackOwed returns what DropReplies had assigned to replies that no longer
// come.
func (l *link) giveBackOwed() {
	l.mu.Lock()
	owed := l.owed.list
	l.mu.Unlock()
	for _, x := range owed {
		if x.rule != nil {
			l.proxy.giveBack(x.rule)
		}
	}
}

// Requests after which the server sends something else than replies.
var leavesRESP = []string{"PSYNC", "SYNC", "MONITOR"}

// request forwards one request. The server's reply is expected from before the
// request is written, since it may come at once.
func (l *link) request(f frame) {
	args := Args(f.bytes)
	name := commandName(args)
	if name == "" { // nothing but line ends; nobody answers
		l.up.write(f)
		return
	}
	l.requests.Add(1)
	l.earlier = f.bytes
	x := expect(name, len(args)-1)
	x.rule = l.proxy.choose(f.bytes, name, !x.confirms && !l.raw.Load())
	if slices.Contains(leavesRESP, name) {
		l.raw.Store(true)
	}
	if !l.raw.Load() {
		l.mu.Lock()
		l.owed.add(x)
		l.mu.Unlock()
	}
	l.up.write(f)
	if x.rule != nil {
		l.up.dead = true // the connection ends with the reply; what follows must not be carried out
	}
}

// readReply is readReply as long as the link speaks RESP.
func (l *link) readReply(r *bufio.Reader) (frame, error) {
	if _, err := r.Peek(1); err != nil {
		return frame{}, err
	}
	if l.raw.Load() {
		return readChunk(r)
	}
	return readReply(r)
}

// reply forwards or drops one reply, push message or chunk of bytes.
func (l *link) reply(f frame) {
	if l.raw.Load() {
		l.down.write(f)
		return
	}
	l.mu.Lock()
	message := slices.Contains(messages, l.owed.pushed(f))
	r := l.owed.answer(f)
	l.answered.Broadcast()
	l.mu.Unlock()
	if message && l.proxy.losesMessage(f) {
		return
	}
	if r == nil {
		l.down.write(f)
		return
	}
	if r.part != nil {
		l.down.write(frame{bytes: f.bytes[:min(max(r.part(len(f.bytes)), 0), len(f.bytes)-1)]})
	}
	l.proxy.noteDropped()
	if r.keepOpen {
		l.down.dead = true
		return
	}
	l.close()
}
