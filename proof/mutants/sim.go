package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// This file has the simulator look for mutants: how long it takes until a seed fails, and how often that seed fails again.

// seedFails is what the simulator says of a seed that fails.
var seedFails = regexp.MustCompile(`seed (\d+): (.*)`)

// simulate prints what the simulator makes of a mutant.
func simulate(root, dir string, m mutant) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	files, err := m.overlay(root, dir)
	if err != nil {
		return err
	}
	mutated := filepath.Join(dir, "mutated.test")
	if err := build(mutated, "sim", files); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	began := time.Now()
	said := seeds(mutated, "SIM_FOR="+limit.String(), "SIM_FAILFAST=1")
	took := time.Since(began)
	fails := seedFails.FindStringSubmatch(said)
	if fails == nil {
		fmt.Printf("%-36s the simulator does not find it within %v\n", m.name, limit)
		return nil
	}
	const repeats = 10
	again, first := 0, 0
	for n := range repeats {
		if !strings.Contains(seeds(mutated, "SIM_FROM="+fails[1], "SIM_FOR=", "GOMAXPROCS=1"), "seed "+fails[1]+": ") {
			continue
		}
		if again++; first == 0 {
			first = n + 1
		}
	}
	fmt.Printf("%-36s the simulator finds it after %-6v by seed %s, which fails %d of %d times again, first at repeat %d: %s\n",
		m.name, took.Round(100*time.Millisecond), fails[1], again, repeats, first, fails[2])
	return nil
}

// seeds runs the simulator, and returns what it says.
func seeds(program string, env ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", "^TestSimulate$", "-test.timeout", "0")
	cmd.Dir = "sim"
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	_ = cmd.Run() // it fails where a seed does
	return text.String()
}
