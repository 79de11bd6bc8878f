// Package rpcdoor is what the interceptors of gRPC and of ConnectRPC share: which
// rule is for which method, what a key function sees of a call, when a stream takes its
// lock, and what a refused client is told beside a status. Both kinds of method have the
// same names ("/shop.v1.Orders/Pay"), the same messages and the same descriptors; what
// differs is how a framework calls an interceptor and how it sends a status, and that is
// what the packages grpclock and connectlock add.
//
// Start reading at rules.go (what users write). When an interceptor is made, door.go makes
// the rules ready, with fields.go (the fields that keys read) and, for rules that stand in
// .proto files, annotated.go. A call with one message goes through call.go alone: its rule,
// its key, its lock, its handler. One with several goes through stream.go. Both ask view.go
// for what the key function sees, and refusal.go for what a client is told. A call that is
// answered once goes through idempotent.go, and answer.go is what is kept of its answer.
package rpcdoor
