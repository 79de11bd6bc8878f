// Package comingfrom has the programs of docs/coming-from.md: in each folder one that takes its locks with
// another library (before.go), and the same one with lockmw (after.go). They lock the same names, so both
// can be at work while one service after the other is moved.
//
//	REDIS_ADDR=localhost:6379 go run -C examples/comingfrom ./redsync
//
// runs both side by side on a Redis, and tells how often each had a lock, and how often both had one at the
// same time, which is never. The test beside each program does the same, and shows what each tells when it
// is refused.
//
// The libraries for Java cannot run here. In their place stand the commands that they send to Redis, in
// internal/standin, which names the file that each was read from.
//
// They are in this module, so that users of the locks do not have the other libraries as their
// dependencies.
package comingfrom
