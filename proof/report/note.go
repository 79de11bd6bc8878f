package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/proof/record"
)

const unknown = "unknown"

// begin writes what the figures of a run depend on, before it starts: later its
// results would count as changes of the tree.
func begin(folder, name string) (record.Run, error) {
	note := record.Run{
		Command: name, Commit: commit(), Date: time.Now().UTC().Truncate(time.Second),
		Go: runtime.Version(), Redis: redisVersion(), CPU: cpu(), Cores: runtime.NumCPU(), Versions: versions(),
	}
	if name != "mutants" { // their checks are run again and again, each time with another one
		note.Seed = rand.Uint64()>>1 | 1
	}
	if text := os.Getenv(record.SeedEnv); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return note, fmt.Errorf("%s: %w", record.SeedEnv, err)
		}
		note.Seed = seed
	}
	return note, save(folder, note)
}

func save(folder string, note record.Run) error {
	text, err := json.MarshalIndent(note, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "run-"+note.Command+".json"), append(text, '\n'), 0o644)
}

// carryOut runs a command, with the results folder and the seed in its
// environment, and notes how long it took. What an earlier run left is removed
// first, or figures of two commits would stand side by side.
func carryOut(folder, name string, command []string) error {
	whole, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	note, err := begin(folder, name)
	if err != nil {
		return err
	}
	if err := clean(folder, name); err != nil {
		return err
	}
	failed := carry(whole, note.Seed, command)
	note.Took = time.Since(note.Date).Round(time.Second)
	if failed != nil {
		note.Failed = failed.Error()
	}
	if err := save(folder, note); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), failed)
	}
	return nil
}

// again carries out a part of a run that has failed, and notes that beside it.
// The rows that it writes take the place of their former ones.
func again(folder, name string, command []string) error {
	whole, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(folder, "run-"+name+".json"))
	if err != nil {
		return err
	}
	var note record.Run
	if err := json.Unmarshal(text, &note); err != nil {
		return err
	}
	part := record.Again{What: strings.Join(command, " "), Commit: commit(), Date: time.Now().UTC().Truncate(time.Second)}
	failed := carry(whole, note.Seed, command)
	if failed != nil {
		part.Failed = failed.Error()
	}
	note.Again = append(note.Again, part)
	return errors.Join(failed, save(folder, note))
}

// carry runs command with the results folder and the seed in its environment.
func carry(folder string, seed uint64, command []string) error {
	fmt.Println(strings.Join(command, " "))
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), record.FolderEnv+"="+folder)
	if seed != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", record.SeedEnv, seed))
	}
	return cmd.Run()
}

// owned lists what a run of a name writes besides the rows of its checks.
var owned = map[string][]string{
	"proof":   {"matrix*.json", "forgets*.json", "check-00-*.json"},
	"rivals":  {"rivals.json", "timeline-*.json", "timeline-*.svg"},
	"mutants": {"mutants.json"},
	"combos":  {"combos.json"},
}

// clean removes what a run of a name writes.
func clean(folder, name string) error {
	patterns := owned[name]
	for _, c := range checks {
		if target := commands[name]; target != "" && c.Command == target {
			patterns = append(patterns, fmt.Sprintf("check-%02d-*.json", c.Number))
		}
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit returns the commit of the tree, and whether it was changed since. What
// this program writes itself is no change.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return unknown
	}
	id := strings.TrimSpace(string(out))
	changes, err := exec.Command("git", "status", "--porcelain", "--", ":/",
		":(top,exclude)proof/results", ":(top,exclude)proof/REPORT.md", ":(top,exclude)docs/proof.md").Output()
	if err != nil || len(bytes.TrimSpace(changes)) > 0 {
		id += "-dirty"
	}
	return id
}

var redisSays = regexp.MustCompile(`\bv=(\S+)`)

func redisVersion() string {
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	out, err := exec.Command(program, "--version").Output()
	if found := redisSays.FindSubmatch(out); err == nil && found != nil {
		return string(found[1])
	}
	return unknown
}

func cpu() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // Linux
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

// versions returns the modules that this module requires itself. They are read
// from go.mod: this program does not contain the rivals.
func versions() map[string]string {
	out, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil {
		return nil
	}
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil
	}
	all := make(map[string]string)
	for _, m := range mod.Require {
		if !m.Indirect && m.Path != "github.com/lockmw/kit" {
			all[m.Path] = m.Version
		}
	}
	return all
}
