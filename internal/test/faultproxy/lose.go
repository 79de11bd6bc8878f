package faultproxy

// LoseMessages makes the messages of subscriptions be lost for which match returns
// true, from now on: the server has published them, and the client never sees them.
// Nothing else on the connection is lost, so that its client takes the subscription for
// sound. match gets the payload, may run concurrently with itself and must not call the
// proxy.
//
// A new call takes the place of an earlier one; a nil match ends it.
func (p *Proxy) LoseMessages(match func(payload []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loses = match
}

// lostMessages returns how many messages LoseMessages has swallowed since New.
func (p *Proxy) lostMessages() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// losesMessage reports whether a message is lost, and counts it if so.
func (p *Proxy) losesMessage(f frame) bool {
	p.mu.Lock()
	match := p.loses
	p.mu.Unlock()
	if match == nil {
		return false
	}
	parts := elements(f.bytes, longestMessage)
	if !match(parts[len(parts)-1]) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost++
	return true
}

// longestMessage is how many elements a message has at most: its kind, a pattern, the
// channel and the payload.
const longestMessage = 4
