package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json (see go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string // empty: about the package
	Output  string
	Elapsed float64 // seconds, at its end
}

// name identifies a test, or a package.
type name struct{ pkg, test string }

// parent returns the test of which n is a subtest, or the package.
func (n name) parent() name {
	return name{n.pkg, n.test[:max(0, strings.LastIndexByte(n.test, '/'))]}
}

// report turns events into the output of go test.
type report struct {
	out     io.Writer
	verbose bool // show everything
	quick   bool // slow tests may be left out

	said    map[name][]string // by what has not ended yet
	passed  int
	failed  int
	why     string   // of what failed, in short
	slow    int      // tests that were left out of a quick run
	skipped []string // for any other reason
	idle    []string // packages that have run no test, and have not failed

	packages []took
	tests    []took // that have no subtests, of packages whose result was not kept from an earlier run
	begun    []took // the same, of packages that have not ended yet
	parents  map[name]bool
}

func newReport(out io.Writer, verbose, quick bool) *report {
	return &report{out: out, verbose: verbose, quick: quick, said: make(map[name][]string), parents: make(map[name]bool)}
}

// read reports all events. Lines that are none are passed on.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.take(e)
			} else {
				r.print(string(line))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// closing prints what failed in all runs, in short, what took longest, and the totals, and returns an error if a
// test was skipped, or none has run where some should.
func closing(out io.Writer, o options, reports []*report) error {
	var all report
	for _, r := range reports {
		if !r.verbose {
			all.why += r.why
		}
		all.passed += r.passed
		all.failed += r.failed
		all.slow += r.slow
		all.skipped = append(all.skipped, r.skipped...)
		all.idle = append(all.idle, r.idle...)
		all.packages = append(all.packages, r.packages...)
		all.tests = append(all.tests, r.tests...)
	}
	left := ""
	if o.quick {
		left = fmt.Sprintf(", %d slow ones left out", all.slow)
	}
	fmt.Fprintf(out, "%s%s%stests: %d passed, %d failed, %d skipped%s\n", all.why,
		longest("packages", all.packages), longest("tests", all.tests), all.passed, all.failed, len(all.skipped), left)
	return errors.Join(all.skips(), all.idles(o.each))
}

// skips returns an error if a test was skipped.
func (r *report) skips() error {
	if len(r.skipped) == 0 {
		return nil
	}
	return fmt.Errorf("a run with skipped tests proves nothing about them:\n%s", strings.Join(r.skipped, ""))
}

// idles returns an error if no test has run, or, where each package should have run one, if a package has not.
func (r *report) idles(each bool) error {
	switch {
	case each && len(r.idle) > 0:
		return fmt.Errorf("no test has run, although one should have, in: %s", strings.Join(r.idle, ", "))
	case r.passed+r.failed+r.slow+len(r.skipped) == 0:
		return errors.New("no test has run")
	}
	return nil
}

// took is how long a test, or a package, took.
type took struct {
	name
	seconds float64
}

// longest lists the ten that took longest, and no less than noticeable.
func longest(what string, all []took) string {
	const most, noticeable = 10, 1
	all = slices.DeleteFunc(all, func(one took) bool { return one.seconds < noticeable })
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	var list strings.Builder
	fmt.Fprintf(&list, "the %s that took longest:\n", what)
	for _, one := range all[:min(most, len(all))] {
		fmt.Fprintf(&list, "  %6.1fs  %s\n", one.seconds, strings.TrimSpace(one.pkg+" "+one.test))
	}
	return list.String()
}

func (r *report) take(e event) {
	n := name{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.print(e.Output)
	case "output":
		r.output(n, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			if e.Action != "fail" && !r.parents[n] {
				r.idle = append(r.idle, e.Package)
			}
			r.lasted(n, e.Elapsed)
			r.endPackage(n, e.Action)
		} else {
			r.endTest(n, e.Action)
			r.begun = append(r.begun, took{n, e.Elapsed})
			r.parents[n.parent()] = true
		}
	}
}

func (r *report) output(n name, text string) {
	if r.verbose {
		r.print(text)
	}
	if !isProgress(text) {
		r.said[n] = append(r.said[n], text)
	}
}

func (r *report) endTest(n name, action string) {
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.show(r.said[n])
		r.why += fmt.Sprintf("failed: %s %s\n%s", n.pkg, n.test, strings.Join(inShort(r.said[n]), ""))
	case "skip":
		if r.quick && isSlow(r.said[n]) {
			r.slow++
			break
		}
		r.skipped = append(r.skipped, fmt.Sprintf("%s %s\n%s", n.pkg, n.test, strings.Join(r.said[n], "")))
	}
	delete(r.said, n)
}

// endPackage shows the package's line and, if it failed, what it said besides,
// after what those tests have said that it took with it.
func (r *report) endPackage(pkg name, action string) {
	for _, n := range r.unfinished(pkg.pkg) {
		if action == "fail" {
			r.show(r.said[n])
		}
		delete(r.said, n)
	}
	for _, text := range r.said[pkg] {
		if action == "fail" || isSummary(text) {
			r.show([]string{text})
		}
	}
	delete(r.said, pkg)
}

// lasted notes how long a package and its tests took, unless they did not run.
func (r *report) lasted(pkg name, seconds float64) {
	ran := !strings.Contains(strings.Join(r.said[pkg], ""), "\t(cached)")
	if ran {
		r.packages = append(r.packages, took{pkg, seconds})
	}
	r.begun = slices.DeleteFunc(r.begun, func(one took) bool {
		if ran && one.pkg == pkg.pkg && !r.parents[one.name] {
			r.tests = append(r.tests, one)
		}
		return one.pkg == pkg.pkg
	})
}

func (r *report) unfinished(pkg string) []name {
	var names []name
	for n := range r.said {
		if n.pkg == pkg && n.test != "" {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b name) int { return strings.Compare(a.test, b.test) })
	return names
}

// show prints what has not been printed before.
func (r *report) show(texts []string) {
	if !r.verbose {
		r.print(strings.Join(texts, ""))
	}
}

// print has nobody to tell that its writer failed.
func (r *report) print(text string) { _, _ = io.WriteString(r.out, text) }

// saidLine matches the first line of what a test has said, as an error or in its log.
var saidLine = regexp.MustCompile(`^ {4}\S+\.go:\d+: `)

// inShort returns the beginning and the end of what a failed test has said, without the
// further lines of a text of many, such as a server's log.
func inShort(said []string) []string {
	const atEach, longest = 8, 400
	var short []string
	for _, text := range said {
		if !saidLine.MatchString(text) {
			continue
		}
		if len(text) > longest {
			text = text[:longest] + "…\n"
		}
		short = append(short, text)
	}
	if n := len(short); n > 2*atEach {
		return slices.Concat(short[:atEach], []string{"    …\n"}, short[n-atEach:])
	}
	return short
}

// slowMark matches what a test has said, in all, that slow.Test of the root
// module has skipped: where it was called, and the text of that package.
var slowMark = regexp.MustCompile(`^ +\S+\.go:\d+: slow: left out by -short\n *--- SKIP: \S+ \([\d.]+s\)\n$`)

func isSlow(said []string) bool { return slowMark.MatchString(strings.Join(said, "")) }

// isProgress tells the lines by which go test -v says which test is running.
func isProgress(text string) bool {
	for _, prefix := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// isSummary tells the lines that go test prints of a package that passed.
func isSummary(text string) bool {
	for _, prefix := range []string{"ok ", "? ", "\t", "testing: warning"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}
