// Command answers counts how often a payment is made whose client sends its request several times, while processes are killed at each
// step of it, clients leave, some ask for something else under the same key, and Redis loses replies and is away now and then: with Idempotent of
// httplock, and with what else there is.
//
//	go run . -keys 2000
//	go run . -crowd 20
//
// The driver (drive.go) starts three processes of each contestant (serve.go), which write each payment down in a file (ledger.go) before they
// answer. For each key it sends the same request four times, to processes by chance, each from a client that asks again after what
// says that it may: a broken connection, a 5xx, a 409 with Retry-After. It ends when the client has an answer, or gives up. Some keys are chosen by
// another user, too, and used on a second route: these are payments of their own.
// What came of a payment is told by judge.go. With -crowd it measures how soon a thousand callers of one key have their answer (crowd.go).
package main
