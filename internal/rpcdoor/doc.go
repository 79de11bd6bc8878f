// Package rpcdoor is what the interceptors of gRPC and of ConnectRPC share: which
// rule is for which method, what a key function sees of a call, when a stream takes its
// lock, and what a refused client is told beside a status. Both kinds of method have the
// same names ("/shop.v1.Orders/Pay"), the same messages and the same descriptors; what
// differs is how a framework calls an interceptor and how it sends a status, and that is
// what the packages grpclock and connectlock add.
//
// Start reading at door.go (what an interceptor makes of its rules), then view.go and
// fields.go (what key functions see), probe.go (what they are found to read), stream.go
// (a stream under its lock), late.go (the context of one that is locked by its first
// message), annotated.go (rules that stand in .proto files) and refusal.go.
package rpcdoor
