package matrix

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/proof/record"
)

// kindsEnv names the environment variable with a regular expression: the kinds of faults whose names it
// matches are done alone, each of them once or PROOF_TIMES times.
const kindsEnv = "PROOF_KINDS"

// A table is kinds of faults, and the test that does them.
type table struct {
	test  func(*testing.T)
	kinds []Kind
}

// tables are all kinds of faults that the tests of the matrix do.
func tables() []table {
	return []table{
		{TestHoldersDoNotOverlapWhileRedisKeepsItsWord, keptWord()},
		{TestFencesHoldWhereRedisForgets, forget()},
		{TestPostgreSQLRefusesLateWritersWhereRedisForgets, besidePostgres()},
		{TestTicketsPassAmongProcesses, slices.Concat(handOn(), handOnForgetful())},
		{TestAnAnswerIsOneForAll, forAll()},
		{TestOtherTopologies, slices.Concat(onCluster(), []Kind{slotOfPipeline}, onQuorum())},
		{TestFailover, []Kind{failover, masterOfPipeline}},
	}
}

// chosen returns the kinds that PROOF_KINDS names; all if it is not set. TestMain has seen to it that it can be read.
func chosen(kinds []Kind) []Kind {
	names := regexp.MustCompile(os.Getenv(kindsEnv))
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return !names.MatchString(k.Name) })
}

// testsOf returns the expression for -run by which the tests run that do the kinds which wanted matches.
func testsOf(wanted string) (run string, err error) {
	names, err := regexp.Compile(wanted)
	if err != nil {
		return "", fmt.Errorf("%s is no regular expression: %w", kindsEnv, err)
	}
	var tests, known []string
	for _, table := range tables() {
		does := false
		for _, kind := range table.kinds {
			known = append(known, "  "+kind.Name)
			does = does || names.MatchString(kind.Name)
		}
		if does {
			function := runtime.FuncForPC(reflect.ValueOf(table.test).Pointer()).Name() // with its package in front
			tests = append(tests, function[strings.LastIndexByte(function, '.')+1:])
		}
	}
	if tests == nil {
		return "", fmt.Errorf("%s=%q matches the name of no kind of fault; known are\n%s", kindsEnv, wanted, strings.Join(known, "\n"))
	}
	return "^(" + strings.Join(tests, "|") + ")$", nil
}

// runChosen has only those tests run that do what PROOF_KINDS names, unless -run says which.
func runChosen() error {
	wanted := os.Getenv(kindsEnv)
	if wanted == "" {
		return nil
	}
	run, err := testsOf(wanted)
	if err != nil {
		return err
	}
	flag.Parse()
	if given := flag.Lookup("test.run"); given == nil || given.Value.String() != "" {
		return nil
	}
	return flag.Set("test.run", run)
}

// times returns how often each kind is done: PROOF_TIMES; once if PROOF_KINDS names the kinds, and in a short run;
// otherwise as often as the table of the checks asks for.
func times(tb testing.TB, full int) int {
	tb.Helper()
	return record.Number(tb, "PROOF_TIMES", whole(record.Pick(1, full)))
}

// whole returns how much of something a run of all kinds must have seen. One of chosen kinds must have seen some.
func whole(much int) int {
	if os.Getenv(kindsEnv) != "" {
		return 1
	}
	return much
}

func TestKindsAreFoundByTheirNames(t *testing.T) {
	run, err := testsOf("^(SCRIPT FLUSH|FLUSHALL)$")
	if want := "^(TestHoldersDoNotOverlapWhileRedisKeepsItsWord|TestFencesHoldWhereRedisForgets)$"; run != want || err != nil {
		t.Errorf("tests = %q, %v, want %q", run, err, want)
	}
	if _, err := testsOf("SCRIPT FLUHS"); err == nil || !strings.Contains(err.Error(), "\n  SCRIPT FLUSH\n") {
		t.Errorf("error = %v, want one that lists the names", err)
	}
	var wrong *syntax.Error
	if _, err := testsOf("("); !errors.As(err, &wrong) {
		t.Errorf("error = %v, want that of regexp", err)
	}
}

func TestKindsHaveNamesOfTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for _, table := range tables() {
		for _, kind := range table.kinds {
			if seen[kind.Name] || kind.Name == "" {
				t.Errorf("%q is the name of two kinds of faults, or empty: the report has a line for each name", kind.Name)
			}
			seen[kind.Name] = true
		}
	}
}
