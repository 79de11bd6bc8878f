// Package redistest gives tests a Redis: real servers that can be killed,
// stopped and restarted, and embedded ones.
//
//   - [Real] starts a redis-server of its own for one test; [Start] is the same
//     without a test around it.
//   - [Shared] is one redis-server per test process, for tests that keep to
//     keys below [Prefix].
//   - [Cluster] is a Redis Cluster whose slots can be moved, [Sentinel] a
//     master with a replica that takes over.
//   - [Embedded] is a miniredis inside the test process, [InMemory] one for a
//     synctest bubble.
//   - [Each] runs one test against an embedded and against a real server.
//   - [Main] is the TestMain of a package that uses any of this: it stops the
//     shared server and fails the run when goroutines are left over.
//
// A missing redis-server fails a test, it never skips one. Redis 7.0 or newer
// is needed. Servers listen on loopback only and keep nothing on disk: what a
// restarted server held before is gone.
//
// Start reading at server.go, then ready.go, which waits until it answers; package process keeps its
// process. What tests use besides is in backend.go (clients, and
// what all kinds have in common), shared.go, embedded.go, example.go, cluster.go,
// sentinel.go, save.go (a server that cannot save), tls.go and balancer.go (what may
// stand in front of servers).
package redistest
