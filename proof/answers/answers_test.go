package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		main()
	}
	redistest.Main(m)
}

const runsAgain = "lockmw, RunAgain"

// see has a contestant answer.
func see(t *testing.T, name string, keys int, m mix) verdict {
	t.Helper()
	v, took, err := run(name, keys, m, redistest.Shared(t).Addr(), filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %+v in %v", name, v, took)
	return v
}

// all is everything at once.
var all = mix{dies: 0.5, leaves: 0.3, other: 0.2, shared: 0.2, atOnce: 8, faults: true}

// While Redis keeps its word nobody pays twice, and each client hears what has happened, or that nobody knows. No answer goes to another user, to
// another route, or to another request.
func TestNobodyPaysTwice(t *testing.T) {
	t.Parallel()
	v := see(t, tellsUncertain, 20, all)
	if v.Twice+v.Differ+v.Crossed+v.False+v.Blocked+v.Together > 0 || v.Once+v.Uncertain != v.Keys || v.Once == 0 {
		t.Errorf("%+v", v)
	}
}

// With RunAgain each payment is made, not by two at a time, and each client has a receipt.
func TestEverythingIsPaid(t *testing.T) {
	t.Parallel()
	v := see(t, runsAgain, 20, all)
	if v.Crossed+v.False+v.Blocked+v.Uncertain+v.Together > 0 || v.Once+v.Twice != v.Keys || v.Once == 0 {
		t.Errorf("%+v", v)
	}
}

// Where one process dies and nothing else happens, the step at which it dies tells what comes of the payment. Where none dies, it is made once, and nobody
// is told that nobody knows.
func TestEachStepHasItsEnd(t *testing.T) {
	for _, name := range []string{tellsUncertain, runsAgain} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const tries = 4
			left := append(stepsOf(name), "")
			for try := 1; len(left) > 0; try++ {
				if try > tries {
					t.Fatalf("something else happened whenever a process died: %q", left)
				}
				v := see(t, name, len(left), mix{leaves: 0.3, other: 0.2, shared: 0.5, atOnce: 1, inTurn: left})
				if len(v.Odd) > 0 || v.Crossed+v.Together > 0 {
					t.Errorf("%+v", v)
				}
				left = slices.DeleteFunc(left, func(step string) bool { return v.Calm[step] > 0 })
			}
		})
	}
}

// Clients that leave, that ask for something else, and that have chosen the key of another user are no reason for anybody to be told that nobody knows.
func TestNobodyIsAlarmed(t *testing.T) {
	t.Parallel()
	m := all
	m.dies, m.faults = 0, false
	v := see(t, tellsUncertain, 20, m)
	if len(v.Odd) > 0 || v.Calm[""] == 0 || v.Crossed > 0 {
		t.Errorf("%+v", v)
	}
}

// The judge tells what becomes of a payment.
func TestVerdict(t *testing.T) {
	a, b := outcome{asked: "7 ann ", status: 201, body: "7 ann a"}, outcome{asked: "7 ann ", status: 201, body: "7 ann b"}
	crossed, refused := outcome{asked: "8 ann ", status: 201, body: "7 ann a"}, outcome{asked: "8 ann ", status: 422, code: "IDEMPOTENCY_KEY_REUSED"}
	anothers := outcome{asked: "7 bob ", status: 201, body: "7 ann a"}
	unknown, gone := outcome{status: 409, code: "IDEMPOTENCY_UNCERTAIN"}, outcome{}
	for name, tc := range map[string]struct {
		paid    int
		clients []outcome
		want    verdict
	}{
		"once":                         {1, []outcome{a, a}, verdict{Once: 1}},
		"twice":                        {2, []outcome{a, b}, verdict{Twice: 1, Differ: 1}},
		"twice, and nobody can tell":   {2, []outcome{a, a}, verdict{Twice: 1}},
		"uncertain":                    {1, []outcome{unknown, unknown}, verdict{Uncertain: 1}},
		"uncertain to some":            {1, []outcome{a, unknown}, verdict{Uncertain: 1}},
		"nobody hears":                 {1, []outcome{a, gone}, verdict{Blocked: 1}},
		"a payment that was not made":  {0, []outcome{a}, verdict{False: 1}},
		"another request is refused":   {1, []outcome{a, refused}, verdict{Once: 1, Refused: 1}},
		"another request has it":       {1, []outcome{a, crossed}, verdict{Crossed: 1}},
		"another user has it":          {1, []outcome{a, anothers}, verdict{Crossed: 1}},
		"an answer that is no success": {0, []outcome{{status: 503}}, verdict{Blocked: 1}},
	} {
		var got verdict
		got.judge(history{paid: tc.paid}, tc.clients, circumstances{faults: true})
		tc.want.Keys = 1
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
	var got verdict
	got.judge(history{paid: 1, overlaps: 1}, []outcome{a}, circumstances{faults: true})
	if got.Together != 1 {
		t.Errorf("two at a time: %+v", got)
	}
}

// The judge tells whether a payment ends as it must where a process died at one step, and nothing else happened.
func TestOddEnds(t *testing.T) {
	receipt, unknown := outcome{asked: "7 ", status: 201, body: "7 a"}, outcome{status: 409, code: "IDEMPOTENCY_UNCERTAIN"}
	for name, tc := range map[string]struct {
		died   string // "": nobody did
		tells  bool
		paid   int
		got    outcome
		calm   bool // it is judged
		odd    bool
		beside circumstances
	}{
		"nothing happened":               {"", true, 1, receipt, true, false, circumstances{}},
		"a false alarm":                  {"", true, 1, unknown, true, true, circumstances{}},
		"twice for nothing":              {"", false, 2, receipt, true, true, circumstances{}},
		"told of what was not noted":     {beforeNoted, true, 0, unknown, true, true, circumstances{}},
		"told of what did not begin":     {beforeWork, true, 0, unknown, true, false, circumstances{}},
		"done again though it is noted":  {inWork, true, 1, receipt, true, true, circumstances{}},
		"done again":                     {paidInWork, false, 2, receipt, true, false, circumstances{}},
		"not done again":                 {paidInWork, false, 1, receipt, true, true, circumstances{}},
		"told though it was kept":        {afterRecord, true, 1, unknown, true, true, circumstances{}},
		"Redis was ill":                  {"", true, 1, unknown, false, false, circumstances{faults: true}},
		"the machine stood still":        {"", true, 1, unknown, false, false, circumstances{stalled: true}},
		"another's process died with it": {"", true, 1, unknown, false, false, circumstances{died: 1}},
	} {
		h, c := history{paid: tc.paid}, tc.beside
		c.tells = tc.tells
		if tc.died != "" {
			h.died, c.died = []string{tc.died}, 1
		}
		var v verdict
		v.judge(h, []outcome{tc.got, tc.got}, c)
		if (v.Calm[tc.died] == 1) != tc.calm || (v.Odd[tc.died] == 1) != tc.odd {
			t.Errorf("%s: %+v, want that it is judged: %v, and odd: %v", name, v, tc.calm, tc.odd)
		}
	}
}
