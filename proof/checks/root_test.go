package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/kit/proof/record"
)

// A rootCheck is one that tests of the root module make.
type rootCheck struct {
	check      int
	name, goal string
	packages   []string
	run        string   // the tests, as go test -run has them
	tests      []string // what must have passed in each package
	figures    string   // which of the logged lines tell
	note       string
}

var (
	httpDoors = []string{"./httplock", "./ginlock", "./echolock", "./echolock/v5"}
	allDoors  = append([]string{"./grpclock", "./connectlock"}, httpDoors...)
)

func rootChecks() []rootCheck {
	door := func(cases ...string) (run string, tests []string) {
		for _, c := range cases {
			tests = append(tests, "TestDoor/"+c)
		}
		return "^TestDoor$/^(" + strings.Join(cases, "|") + ")$", tests
	}
	exits := rootCheck{
		check: 11, name: "exits: return, error, panic, ErrAbortHandler, Goexit, every door",
		goal: "100 each: keys left 0; panic value preserved", packages: allDoors, figures: `\d+ exits of`,
		note: "on an embedded and on a real Redis each; grpclock and connectlock (by each protocol) log no figure: return, error, panic and Goexit, 100 each",
	}
	exits.run, exits.tests = door("EveryExitReleases")
	spelling := rootCheck{
		check: 19, name: "spelling matrix, every HTTP door", goal: "40 URL variants or more: the key agrees with what the handler sees, all",
		packages: httpDoors, figures: `\d+ of \d+ spellings`,
		note: "58 variants; those without a route of the framework, or refused, run no handler",
	}
	spelling.run, spelling.tests = door("KeySeesWhatTheHandlerSees")
	bodies := rootCheck{
		check: 20, name: "100 bodies of 1 GiB, and bodies at 1 B/s",
		goal: "413 before any Redis call; locks held while a body is unread 0", packages: httpDoors, figures: `\d+ bodies of|other requests`,
		note: "bodies that tell their length of 1 GiB, and endless ones that tell none",
	}
	bodies.run, bodies.tests = door("HugeBodiesCostLittle", "DrippingBodyHoldsNoLock", "SlowBodyHoldsNoLock")
	return []rootCheck{exits, {
		check: 18, name: "key injectivity, exhaustive over 6 special characters",
		goal: "collisions 0, panics 0", packages: []string{"./keyfunc"},
		run:     "^(TestDifferentValuesNeverGiveOneKey|TestJoinedKeyCanBeDecoded|TestDifferentRoutesNeverGiveOneKey|FuzzInjective|FuzzParse)$",
		tests:   []string{"TestDifferentValuesNeverGiveOneKey", "TestJoinedKeyCanBeDecoded", "FuzzInjective", "FuzzParse"},
		figures: `\d+ tuples`,
		note: "three values of up to three characters by Join, decoded; every other scheme (27 in all) with three characters for one and two values, " +
			"two for three; fuzzing of injectivity in a row of its own",
	}, spelling, bodies}
}

// Four checks need no more than the root module's own tests. In the short
// slice those run anyway, and it is enough that they are there.
func TestChecksOfTheRootModule(t *testing.T) {
	for _, c := range rootChecks() {
		if testing.Short() {
			c.exist(t)
			continue
		}
		record.Add(t, c.row(t))
	}
}

// exist checks that the tests are there, without building them: a case of a
// door by its name in the list of cases.
func (c rootCheck) exist(t *testing.T) {
	t.Helper()
	for _, name := range c.tests {
		name, door, isCase := strings.Cut(name, "/")
		for _, p := range c.packages {
			if !contains(t, filepath.Join(root, p, "*_test.go"), "func "+name+"(") {
				t.Errorf("check %d: %s has no %s", c.check, p, name)
			}
		}
		if isCase && !contains(t, filepath.Join(root, "internal/test/doortest/run.go"), `Name: "`+door+`"`) {
			t.Errorf("check %d: no door has the case %s", c.check, door)
		}
	}
}

func contains(t *testing.T, files, what string) bool {
	t.Helper()
	found, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(found, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), what)
	})
}

func (c rootCheck) row(t *testing.T) record.Row {
	t.Helper()
	out := goTest(t, append([]string{"-count=1", "-v", "-timeout", "5m", "-run", c.run}, c.packages...)...)
	met := strings.Count("\n"+out, "\nok  ") == len(c.packages) && !strings.Contains(out, "[no tests to run]")
	for _, name := range c.tests {
		if got := strings.Count(out, "--- PASS: "+name+" "); got != len(c.packages) {
			t.Errorf("check %d: %s passed in %d of %v\n%s", c.check, name, got, c.packages, out)
			met = false
		}
	}
	said := regexp.MustCompile(`_test\.go:\d+: |[a-z]+\.go:\d+: `)
	wanted := regexp.MustCompile(c.figures)
	var figures []string
	for line := range strings.Lines(out) {
		if wanted.MatchString(line) && said.MatchString(line) {
			_, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			figures = append(figures, text)
		}
	}
	if len(figures) == 0 {
		t.Errorf("check %d: no figure was logged", c.check)
	}
	return record.Row{
		Check: c.check, Name: c.name, Goal: c.goal, Met: met && len(figures) > 0, Note: c.note,
		Figure: fmt.Sprintf("passed in %d of %d packages: %s", strings.Count("\n"+out, "\nok  "), len(c.packages), ranges(figures)),
	}
}

var number = regexp.MustCompile(`\d+`)

// ranges joins lines. Of those that differ in their numbers only it makes one,
// which has the smallest and the largest of each.
func ranges(lines []string) string {
	alike := make(map[string][][]int) // the numbers of the lines, by the text around them
	var texts []string
	for _, line := range lines {
		text := number.ReplaceAllString(line, "#")
		var values []int
		for _, digits := range number.FindAllString(line, -1) {
			n, _ := strconv.Atoi(digits)
			values = append(values, n)
		}
		if alike[text] == nil {
			texts = append(texts, text)
		}
		alike[text] = append(alike[text], values)
	}
	for i, text := range texts {
		all := alike[text]
		for at := range all[0] {
			least, most := all[0][at], all[0][at]
			for _, values := range all {
				least, most = min(least, values[at]), max(most, values[at])
			}
			span := strconv.Itoa(least)
			if most > least {
				span += "-" + strconv.Itoa(most)
			}
			text = strings.Replace(text, "#", span, 1)
		}
		texts[i] = fmt.Sprintf("%d x %s", len(all), text)
	}
	return strings.Join(texts, "; ")
}

// execs is how many inputs the fuzzer has tried.
var execs = regexp.MustCompile(`execs: (\d+)`)

// Values that no table holds.
func TestKeysAreFuzzed(t *testing.T) {
	if testing.Short() {
		rootCheck{check: 18, packages: []string{"./keyfunc"}, tests: []string{"FuzzInjective"}}.exist(t)
		return
	}
	const lasts = "20s"
	out := goTest(t, "-run", "^$", "-fuzz", "^FuzzInjective$", "-fuzztime", lasts, "-timeout", "3m", "./keyfunc")
	all := execs.FindAllStringSubmatch(out, -1)
	figure := "none"
	if len(all) > 0 {
		figure = all[len(all)-1][1]
	}
	record.Add(t, record.Row{
		Check: 18, Name: "key injectivity, fuzzed", Goal: "collisions 0, panics 0",
		Figure: figure + " inputs, failures 0", Met: len(all) > 0 && strings.Contains(out, "ok  ") && !t.Failed(),
		Note: "Go's fuzzer for " + lasts,
	})
}

// goTest runs go test in the root module and returns what it says.
func goTest(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test"}, args...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("go test %q: %v\n%s", args, err, out)
	}
	return string(out)
}
