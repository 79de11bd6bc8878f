package load

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/lockmw/kit/bench/library"
)

// use is what this process has used.
type use struct {
	allocs   int64
	cpu      time.Duration
	commands int64
}

// measure returns what is used from the beginning to the end of w, and writes
// a profile of that time if it is given a file.
func measure(w Window, wire *library.Wire, profile string) (u use, err error) {
	runtime.GC()
	time.Sleep(time.Until(w.Begin))
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return u, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return u, err
		}
		defer pprof.StopCPUProfile()
	}
	before := used(wire)
	time.Sleep(time.Until(w.End))
	after := used(wire)
	return use{
		allocs:   after.allocs - before.allocs,
		cpu:      after.cpu - before.cpu,
		commands: after.commands - before.commands,
	}, nil
}

func used(wire *library.Wire) use {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // fails only for another argument
	return use{
		allocs:   int64(memory.Mallocs),
		cpu:      time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		commands: wire.Commands(),
	}
}

// heap returns how many bytes are in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept through the first
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}

func closeAll[T interface{ Close() error }](list []T) error {
	errs := make([]error, 0, len(list))
	for _, c := range list {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
