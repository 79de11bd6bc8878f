package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// This file has the simulator look for mutants: how long it takes until a seed fails, and how often that seed fails again.

const (
	hangMost   = 4 * time.Minute // the simulator says of a seed that it does not end before this is over
	repeats    = 10
	repeatMost = 15 * time.Second // some ten times what a seed takes, which does not end then: the engine may spin, or wait for ever
)

// A find is what the simulator makes of a mutant.
type find struct {
	mutant string
	seed   uint64 // 0: no seed failed within the limit
	says   string
	took   time.Duration
	again  int // how many of the repeats fail
	first  int // the first of those that fails, from 1; 0: none
	hung   int // how many of those that fail do not end
}

func (f find) String() string {
	if f.seed == 0 {
		return fmt.Sprintf("%-36s the simulator does not find it within %v", f.mutant, limit)
	}
	return fmt.Sprintf("%-36s the simulator finds it after %-6v by seed %d, which fails %d of %d times again, first at repeat %d (%d did not end): %s",
		f.mutant, f.took.Round(100*time.Millisecond), f.seed, f.again, repeats, f.first, f.hung, f.says)
}

// finds are those of all mutants.
type finds []find

func (all finds) String() string {
	var took []time.Duration // a mutant that is not found took longer than all others
	found, once, within := 0, 0, 0
	for _, f := range all {
		if f.seed == 0 {
			took = append(took, limit)
			continue
		}
		took = append(took, f.took)
		found++
		if f.first == 1 {
			once++
		}
		if f.first > 0 {
			within++
		}
	}
	if found == 0 {
		return fmt.Sprintf("none of %d found", len(all))
	}
	slices.Sort(took)
	return fmt.Sprintf("%d of %d found, the median of all after %v; of the seeds that found them %d%% fail again at once, %d%% within %d repeats",
		found, len(all), took[(len(took)-1)/2].Round(100*time.Millisecond), 100*once/found, 100*within/found, repeats)
}

// seedFails is what the simulator says of a seed that fails.
var seedFails = regexp.MustCompile(`seed (\d+): (.*)`)

// simulate has the simulator look for a mutant.
func simulate(root, dir string, m mutant) (find, error) {
	f := find{mutant: m.name}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return f, err
	}
	files, err := m.overlay(root, dir)
	if err != nil {
		return f, err
	}
	mutated := filepath.Join(dir, "mutated.test")
	if err := build(mutated, "sim", files); err != nil {
		return f, fmt.Errorf("%s: %w", m.name, err)
	}
	began := time.Now()
	said, _ := seeds(mutated, limit+hangMost, "SIM_FOR="+limit.String(), "SIM_FAILFAST=1")
	f.took = time.Since(began)
	fails := seedFails.FindSubmatch(said)
	if fails == nil {
		return f, nil
	}
	if f.seed, err = strconv.ParseUint(string(fails[1]), 10, 64); err != nil {
		return f, err
	}
	f.says = string(fails[2])
	for n := range repeats {
		said, ended := seeds(mutated, repeatMost, "GOMAXPROCS=1", "SIM_STEP=1", "SIM_FOR=0s", fmt.Sprint("SIM_FROM=", f.seed))
		wrong, told := outcome(said)
		if told && !wrong {
			continue
		}
		f.again++ // by what is wrong, by a panic, or by an end that does not come
		f.first = cmp.Or(f.first, n+1)
		if !ended {
			f.hung++
		}
	}
	return f, nil
}

// outcome reads what one of the simulator's processes tells: whether something was wrong, and whether a seed came to its end at all.
func outcome(said []byte) (wrong, told bool) {
	for lines := json.NewDecoder(bytes.NewReader(said)); ; {
		var seen struct {
			Begins bool
			Result struct{ Wrong []string }
		}
		if err := lines.Decode(&seen); err != nil { // io.EOF, or what is no seed
			return wrong, told
		}
		wrong, told = wrong || seen.Result.Wrong != nil, told || !seen.Begins
	}
}

// seeds runs the simulator, and returns what it says, and whether it ended by itself.
func seeds(program string, most time.Duration, env ...string) (said []byte, ended bool) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", "^TestSimulate$", "-test.timeout", "0")
	cmd.Dir = "sim"
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, io.Discard
	_ = cmd.Run() // it fails where a seed does
	return text.Bytes(), ctx.Err() == nil
}
