// Report makes REPORT.md, its pictures and the figures in docs/proof.md from the
// files that the checks wrote to a folder. Run it in the proof module:
//
//	go run ./report                           write the report
//	go run ./report -note soak                note what the next figures depend on
//	go run ./report -note soak go test ...    note it, run this with PROOF_RESULTS
//	                                          and PROOF_SEED set, write the report
//	go run ./report -again proof go test ...  the same for a part of that run that
//	                                          had failed, noted beside it
//
// Start reading at results.go, which reads the folder, then markdown.go, which has the
// page with its parts: checks.go, combos.go and tables.go. timeline.go draws the
// pictures, whose texts labels.go puts side by side; figures.go writes into docs/proof.md,
// note.go keeps what figures depend on, and words.go says how figures are written.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// run does what the arguments say. The report is written also if the command
// fails: a goal that is not met shall be seen.
func run(args []string) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	results := flags.String("results", "results", "the folder with what the checks wrote")
	out := flags.String("out", "REPORT.md", "the report")
	figures := flags.String("figures", "../docs/proof.md", "the document whose figures are to be rewritten; empty: none")
	note := flags.String("note", "", "write run-<note>.json; further arguments are a command to be run")
	part := flags.String("again", "", "add to run-<again>.json; further arguments are a command that repeats what failed in that run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *part != "" {
		if *note != "" || flags.NArg() == 0 {
			return errors.New("-again is for itself, and takes a command")
		}
		return errors.Join(again(*results, *part, flags.Args()), write(*results, *out, *figures))
	}
	if *note == "" {
		if flags.NArg() > 0 {
			return fmt.Errorf("do not know what to do with %q", flags.Args())
		}
		return write(*results, *out, *figures)
	}
	if flags.NArg() == 0 {
		_, err := begin(*results, *note)
		return err
	}
	return errors.Join(carryOut(*results, *note, flags.Args()), write(*results, *out, *figures))
}

// write writes the report, the pictures and the figures in a document.
func write(folder, out, document string) error {
	r, err := Load(folder)
	if err != nil {
		return err
	}
	for name, t := range r.Timelines {
		if err := os.WriteFile(filepath.Join(folder, name+".svg"), SVG(t), 0o644); err != nil {
			return err
		}
	}
	link, err := filepath.Rel(filepath.Dir(out), folder)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, r.Markdown(filepath.ToSlash(link)), 0o644); err != nil {
		return err
	}
	if document == "" {
		return nil
	}
	before, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	after, err := r.Figures(before)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, after, 0o644)
}
