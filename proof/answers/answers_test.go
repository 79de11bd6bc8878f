package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		main()
	}
	redistest.Main(m)
}

// While Redis keeps its word nobody pays twice, and each client hears what has happened, or that nobody knows.
func TestNobodyPaysTwice(t *testing.T) {
	v, took, err := run("lockmw, Uncertain", 20, 8, mix{dies: 0.5, leaves: 0.3, other: 0.2}, redistest.Real(t).Addr(), filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v in %v", v, took)
	if v.Twice+v.Differ+v.Crossed+v.False+v.Blocked > 0 || v.Once+v.Uncertain != v.Keys {
		t.Errorf("%+v", v)
	}
}

// The judge tells what becomes of a key.
func TestVerdict(t *testing.T) {
	a, b := outcome{asked: "7", status: 201, body: "7 a"}, outcome{asked: "7", status: 201, body: "7 b"}
	crossed, refused := outcome{asked: "8", status: 201, body: "7 a"}, outcome{asked: "8", status: 422, code: "IDEMPOTENCY_KEY_REUSED"}
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
		"an answer that is no success": {0, []outcome{{status: 503}}, verdict{Blocked: 1}},
	} {
		var got verdict
		got.judge(tc.paid, tc.clients)
		tc.want.Keys = 1
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
