// Package unexported keeps everything to itself.
package unexported

import (
	"context"

	"github.com/lockmw/kit/lockmw"
)

type jobs interface {
	//lockmw:lock {id}
	run(ctx context.Context, id string) error
	Stop(ctx context.Context) error
}

type worker struct{ zone string }

//lockmw:lock {w.zone}:{id} prefix=worker:
func (w *worker) run(ctx context.Context, id string) error { return ctx.Err() }

func (w *worker) Stop(ctx context.Context) error { return ctx.Err() }

// Run runs a job of a worker under both locks. It calls what is generated, so this
// package does not compile without that.
func Run(ctx context.Context, locks *lockmw.Locker) error {
	return lockJobs(lockWorker(&worker{"eu"}, locks), locks).run(ctx, "42")
}

// Locked keeps what is generated in a variable and in a field.
var Locked = struct{ worker *lockedWorker }{}
