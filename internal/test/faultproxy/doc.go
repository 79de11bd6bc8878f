// Package faultproxy is a TCP proxy on loopback that stands between Redis
// clients and one server and injects network faults while they talk.
//
//	proxy, err := faultproxy.New(server.Addr())
//	client := redistest.NewClient(t, proxy.Addr())
//	proxy.BlackHole(faultproxy.Both) // nothing passes, nothing is closed
//	proxy.Heal()
//	proxy.DropReplies(1, faultproxy.Match("INCR")) // counts, but nobody is told
//
// It understands as much RESP (2 and 3) as it needs to tell which reply belongs
// to which request, so a lost reply is exactly one. Connections that turn into
// something else (PSYNC, SYNC, MONITOR) are handed on as bytes from there on.
// Not understood, and the end of a connection, are TLS and streamed RESP3 types;
// CLIENT REPLY OFF and SKIP would attribute replies to the wrong requests.
//
// Start reading at proxy.go; a connection's two ways are in link.go and pipe.go,
// faults of one connection alone in single.go, lost replies in drop.go, lost messages in
// lose.go, what comes between two requests in between.go, which requests are meant in
// match.go, the protocol in resp.go.
package faultproxy
