package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockmw/kit/proof/record"
)

// Results is what was found in a folder of results. What is missing is empty.
type Results struct {
	Rows      []record.Row // by the number of their check
	Matrix    []record.Line
	Forgets   []record.Line
	Rivals    []record.Rival
	Mutants   []record.Mutant
	Combos    *record.Combos             // nil: not run
	Timelines map[string]record.Timeline // by the file's name without its ending
	Runs      []record.Run               // by their commands
}

// Load reads a folder. One that does not exist is an empty one.
func Load(folder string) (*Results, error) {
	r := &Results{Timelines: make(map[string]record.Timeline)}
	files, err := filepath.Glob(filepath.Join(folder, "*.json")) // sorted
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := r.add(strings.TrimSuffix(filepath.Base(file), ".json"), text); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	slices.SortStableFunc(r.Rows, func(a, b record.Row) int { return cmp.Compare(a.Check, b.Check) })
	slices.SortStableFunc(r.Runs, func(a, b record.Run) int { return cmp.Compare(a.Command, b.Command) })
	r.judgeMutants()
	return r, nil
}

// add reads one file. One of another name is none of ours.
func (r *Results) add(name string, text []byte) error {
	kind, _, _ := strings.Cut(name, "-")
	switch kind {
	case "check":
		return more(&r.Rows, text)
	case "run":
		return more(&r.Runs, text)
	case "matrix":
		return moreOf(&r.Matrix, text)
	case "forgets":
		return moreOf(&r.Forgets, text)
	case "rivals":
		return json.Unmarshal(text, &r.Rivals)
	case "mutants":
		return json.Unmarshal(text, &r.Mutants)
	case "combos":
		r.Combos = new(record.Combos)
		return json.Unmarshal(text, r.Combos)
	case "timeline":
		var t record.Timeline
		if err := json.Unmarshal(text, &t); err != nil {
			return err
		}
		r.Timelines[name] = t
	}
	return nil
}

func more[T any](list *[]T, text []byte) error {
	var one T
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*list = append(*list, one)
	return nil
}

func moreOf[T any](list *[]T, text []byte) error {
	var some []T
	if err := json.Unmarshal(text, &some); err != nil {
		return err
	}
	*list = append(*list, some...)
	return nil
}

// judgeMutants makes the row of check 3 of REPORT.md from the list of mutants, unless their
// program has written one.
func (r *Results) judgeMutants() {
	const number, enough = 3, 40
	at, found := slices.BinarySearchFunc(r.Rows, number, func(row record.Row, n int) int { return cmp.Compare(row.Check, n) })
	if found || len(r.Mutants) == 0 {
		return
	}
	caught, slowest := caughtOf(r.Mutants)
	wanted := listed(number)
	r.Rows = slices.Insert(r.Rows, at, record.Row{
		Check: number, Name: "mutants", Goal: wanted.Goal,
		Figure: fmt.Sprintf("%d of %d caught, the slowest after %s", caught, len(r.Mutants), short(slowest)),
		Met:    caught == len(r.Mutants) && caught >= enough && slowest <= limitOfMutants,
	})
}

// of returns the rows of a check.
func (r *Results) of(check int) []record.Row {
	var rows []record.Row
	for _, row := range r.Rows {
		if row.Check == check {
			rows = append(rows, row)
		}
	}
	return rows
}

// broken returns the commands whose last run failed or has not ended: a check may
// have failed there before it could say so in a row.
func (r *Results) broken() []string {
	var all []string
	for _, run := range r.Runs {
		if !run.Stands() {
			all = append(all, run.Command)
		}
	}
	return all
}

// tally returns the numbers of the listed checks that were met, were not, and
// were not run.
func (r *Results) tally() (met, failed, missing []int) {
	for _, c := range checks {
		rows := r.of(c.Number)
		switch {
		case len(rows) == 0:
			missing = append(missing, c.Number)
		case slices.ContainsFunc(rows, func(row record.Row) bool { return !row.Met }):
			failed = append(failed, c.Number)
		default:
			met = append(met, c.Number)
		}
	}
	return met, failed, missing
}
