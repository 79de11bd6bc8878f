package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlacesAreReadInTheirOrder(t *testing.T) {
	var out strings.Builder
	places := inOrder(&out, 4)
	say := func(i int, text string) {
		t.Helper()
		if _, err := places[i].Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	shown := func(want string) {
		t.Helper()
		if out.String() != want {
			t.Errorf("shown = %q, want %q", out.String(), want)
		}
	}
	say(0, "a")
	say(1, "b")
	say(2, "c")
	shown("a") // at once
	places[1].end()
	say(0, "A")
	shown("aA")
	places[0].end()
	shown("aAbc") // the second has ended, and the third has its turn
	say(2, "C")
	shown("aAbcC")
	say(3, "d")
	places[3].end()
	places[2].end()
	shown("aAbcCd")
}

// Each run takes a second, so the seconds in which runs begin say which were beside each other.
func TestRunsBeginInTheirTurn(t *testing.T) {
	for _, tc := range []struct {
		alone, beside int
		begins        []int
	}{
		{0, 1, []int{0, 1, 2, 3, 4}},
		{0, 2, []int{0, 0, 1, 1, 2}},
		{0, 9, []int{0, 0, 0, 0, 0}},
		{1, 3, []int{0, 1, 1, 1, 2}},
		{2, 2, []int{0, 1, 2, 2, 3}},
		{9, 9, []int{0, 1, 2, 3, 4}},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			begins := make([]int, len(tc.begins))
			inTurn(len(begins), tc.alone, tc.beside, func(i int) {
				begins[i] = int(time.Since(began) / time.Second)
				time.Sleep(time.Second)
			})
			if !slices.Equal(begins, tc.begins) {
				t.Errorf("alone %d, beside %d: begun at %v, want %v", tc.alone, tc.beside, begins, tc.begins)
			}
		})
	}
}

func TestOneFolderFailsAndTheOthersRun(t *testing.T) {
	bad := module(t, `func TestBad(t *testing.T) { t.Error("wrong") }`)
	good := module(t, `func TestGood(t *testing.T) {}`)
	for _, beside := range []int{1, 2} {
		var out strings.Builder
		err := runAll(t.Context(), options{beside: beside}, split([]string{bad, ".", "--", good, "-short", "."}), &out)
		if err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), good) {
			t.Errorf("beside = %d: error = %v, want one that names %s alone", beside, err, bad)
		}
		last := 0
		for _, s := range []string{"in " + bad + ": go test .\n", "--- FAIL: TestBad", "in " + good + ": go test -short .\n", "ok  \t", "failed: example.test/m TestBad\n", "tests: 1 passed, 1 failed, 0 skipped\n"} {
			at := strings.Index(out.String(), s)
			if at < last {
				t.Errorf("beside = %d: %q is missing, or in another place, in:\n%s", beside, s, &out)
			}
			last = at
		}
	}
}

func TestNothingBeginsAfterAnInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out strings.Builder
	if err := runAll(ctx, options{beside: 1}, split([]string{module(t, `func TestA(t *testing.T) {}`), "."}), &out); err == nil {
		t.Error("tests that did not run have passed")
	}
	if want := "tests: 0 passed, 0 failed, 0 skipped\n"; out.String() != want {
		t.Errorf("shown = %q, want %q", &out, want)
	}
}
