package faultproxy

// Conn is one client's connection through a proxy, for faults that strike it alone.
type Conn struct{ link *link }

// Busiest returns the connection over which most requests have gone, of those that are
// open, or nil if there is none.
func (p *Proxy) Busiest() *Conn {
	var busiest *link
	p.each(func(l *link) {
		if busiest == nil || l.requests.Load() > busiest.requests.Load() {
			busiest = l
		}
	})
	if busiest == nil {
		return nil
	}
	return &Conn{busiest}
}

// Requests returns how many requests were forwarded over the connection.
func (c *Conn) Requests() int { return int(c.link.requests.Load()) }

// BlackHole is Proxy.BlackHole for this connection.
func (c *Conn) BlackHole(dir Direction) {
	for _, w := range c.ways(dir) {
		w.block()
	}
}

// Stall is Proxy.Stall for this connection.
func (c *Conn) Stall(dir Direction) {
	for _, w := range c.ways(dir) {
		w.stall()
	}
}

// Heal ends BlackHole and Stall of this connection. If it lost bytes it stays silent,
// as described at Proxy.Heal.
func (c *Conn) Heal() {
	for _, w := range c.ways(Both) {
		w.unblock()
	}
}

func (c *Conn) ways(dir Direction) []*way {
	var ways []*way
	if dir&ToServer != 0 {
		ways = append(ways, &c.link.up.own)
	}
	if dir&ToClient != 0 {
		ways = append(ways, &c.link.down.own)
	}
	return ways
}
