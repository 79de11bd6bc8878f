package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
)

// asProcess is the variable with which the program is a process of a contestant.
const asProcess = "ANSWERS_SERVES"

func main() {
	var (
		keys   = flag.Int("keys", 500, "how many keys of each contestant")
		atOnce = flag.Int("at-once", 8, "how many of them at the same time")
		dies   = flag.Float64("die", 0.5, "the share of payments of which a process dies")
		leaves = flag.Float64("leave", 0.3, "the share of payments of which a client leaves, and comes again")
		other  = flag.Float64("other", 0.2, "the share of payments of which a client asks for something else")
		shared = flag.Float64("shared", 0.2, "the share of payments whose key another user has chosen, too, and is used on another route")
		crowd  = flag.Int("crowd", 0, "instead: how many times 1,000 callers of one key ask at the same time")
		only   = flag.String("only", "", "the contestants whose names have this in them")
		name   = flag.String("serve", "", "serve this contestant")
		addr   = flag.String("redis", "", "the Redis of -serve")
		path   = flag.String("ledger", "", "the ledger of -serve")
		at     = flag.String("addr", "", "the address of -serve")
	)
	flag.Parse()
	if os.Getenv(asProcess) != "" {
		fail(serve(*name, *addr, *path, *at))
	}
	dir, err := os.MkdirTemp("", "answers")
	fail(err)
	defer os.RemoveAll(dir)
	server, err := redistest.Start()
	fail(err)
	defer server.Close()
	if *crowd > 0 {
		fail(runCrowds(server.Addr(), *crowd))
		return
	}
	fmt.Fprintf(os.Stdout, "%-32s %5s %5s %6s %6s %8s %9s %8s %7s %5s %8s %8s\n", "",
		"keys", "once", "twice", "differ", "crossed", "uncertain", "refused", "blocked", "false", "together", "seconds")
	m := mix{dies: *dies, leaves: *leaves, other: *other, shared: *shared, atOnce: *atOnce, faults: true}
	for i, name := range slices.Sorted(maps.Keys(contestants)) {
		if !strings.Contains(name, *only) {
			continue
		}
		v, took, err := run(name, *keys, m, server.Addr(), filepath.Join(dir, fmt.Sprint("ledger", i)))
		fail(err)
		fmt.Fprintf(os.Stdout, "%-32s %5d %5d %6d %6d %8d %9d %8d %7d %5d %8d %8.0f\n", name,
			v.Keys, v.Once, v.Twice, v.Differ, v.Crossed, v.Uncertain, v.Refused, v.Blocked, v.False, v.Together, took.Round(time.Second).Seconds())
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "answers:", err)
		os.Exit(1)
	}
}
