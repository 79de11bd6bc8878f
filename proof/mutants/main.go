// Command mutants builds the library with one deliberate mistake after the other
// and has the checks run until they notice it. A mistake that none notices would
// mean that the checks are worth nothing.
//
//	go run ./mutants [-only part of a name] [-sim]
//
// Run it in the folder of the proof module. The mistakes are laid over the
// sources by go build -overlay: no file is changed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/proof/record"
)

// limit is how long the checks may take to notice a mistake.
const limit = 60 * time.Second

func main() {
	only := flag.String("only", "", "run only mutants with this in their name")
	out := flag.String("o", "", "write what was found to this file, as JSON")
	sim := flag.Bool("sim", false, "have the simulator look for the mutants instead, and say after how long it has found them")
	flag.Parse()
	if err := run(*only, *out, *sim); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only, out string, sim bool) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	h := hunt{root: root, dir: dir, sound: make(map[string]bool), programs: make(map[string]string)}
	var results []record.Mutant
	var found finds
	var failed error
	for i, m := range slices.Concat(mutants, native, tenures, tickets, answers) {
		if !strings.Contains(m.name, only) {
			continue
		}
		in := filepath.Join(dir, fmt.Sprint(i))
		if sim {
			f, err := simulate(root, in, m)
			if err != nil {
				return err
			}
			fmt.Println(f)
			found = append(found, f)
			continue
		}
		r, err := h.of(m, in)
		if err != nil {
			return err
		}
		fmt.Printf("%-36s caught: %-5v by %s after %v\n", r.Name, r.Caught, r.By, r.Took.Round(100*time.Millisecond))
		if !r.Caught {
			failed = errors.Join(failed, fmt.Errorf("%q was not noticed within %v", r.Name, limit))
		}
		results = append(results, r)
	}
	if sim {
		fmt.Println(found)
	}
	if out != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return err
		}
		failed = errors.Join(failed, os.WriteFile(out, append(text, '\n'), 0o644))
	}
	return failed
}

// A hunt is for several mutants.
type hunt struct {
	root, dir string
	programs  map[string]string // by package: its tests, of the library as it is
	sound     map[string]bool   // by package, test, kinds and times: it has passed without any mistake
}

// of runs a mutant's checks on the library as it is, unless they have passed already, and
// then on the mutant until they fail.
func (h *hunt) of(m mutant, dir string) (record.Mutant, error) {
	r := record.Mutant{Name: m.name, What: m.what}
	if err := h.pass(m); err != nil {
		return r, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return r, err
	}
	files, err := m.overlay(h.root, dir)
	if err != nil {
		return r, err
	}
	mutated := filepath.Join(dir, "mutated.test")
	if err := build(mutated, m.in, files); err != nil {
		return r, fmt.Errorf("%s: %w", m.name, err)
	}
	began := time.Now()
	for time.Since(began) < limit {
		said, err := m.check(mutated, limit-time.Since(began))
		if err != nil && strings.Contains(said, "--- FAIL") && strings.Contains(said, m.says) {
			r.Caught, r.By = true, failing(said)
			break
		}
	}
	r.Took = time.Since(began)
	return r, nil
}

// pass returns an error if the mutant's checks fail without any mistake.
func (h *hunt) pass(m mutant) error {
	checks := fmt.Sprint(m.in, " ", m.tests, " ", m.kinds, m.times)
	if h.sound[checks] {
		return nil
	}
	program, ok := h.programs[m.in]
	if !ok {
		program = filepath.Join(h.dir, m.in+".test")
		if err := build(program, m.in, nil); err != nil {
			return err
		}
		h.programs[m.in] = program
	}
	if said, err := m.check(program, limit); err != nil {
		return fmt.Errorf("%s: the checks fail without any mistake: %w\n%s", m.name, err, said)
	}
	h.sound[checks] = true
	return nil
}

// failing returns the name of the first test that failed.
func failing(said string) string {
	_, rest, _ := strings.Cut(said, "--- FAIL: ")
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// build compiles the tests of a package of the proof. files, if not nil, take the place of
// others.
func build(to, in string, files map[string]string) error {
	args := []string{"test", "-c", "-o", to}
	if files != nil {
		if err := writeOverlay(to+".json", files); err != nil {
			return err
		}
		args = append(args, "-overlay", to+".json")
	}
	cmd := exec.Command("go", append(args, "./"+in)...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// check runs the tests in their package's folder, as go test does.
func (m mutant) check(program string, within time.Duration) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.short", "-test.run", m.tests)
	cmd.Dir = m.in
	cmd.Env = append(os.Environ(), record.FolderEnv+"=", "PROOF_KINDS="+m.kinds) // what a mutant does is no result
	if m.times > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("PROOF_TIMES=", m.times))
	}
	cmd.WaitDelay = 5 * time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	return text.String(), err
}
