package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
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

// Each of two tests passes once the other one runs.
func TestFoldersAreTestedBesideEachOther(t *testing.T) {
	room := t.TempDir()
	meet := func(mine, other string) string {
		return fmt.Sprintf(`func TestMeet(t *testing.T) {
			if err := os.WriteFile(%q, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				if _, err := os.Stat(%q); err == nil {
					return
				} else if time.Now().After(end) {
					t.Fatal("the other one does not come")
				}
			}
		}`, filepath.Join(room, mine), filepath.Join(room, other))
	}
	var out strings.Builder
	runs := []testRun{{dir: module(t, meet("a", "b")), args: []string{"."}}, {dir: module(t, meet("b", "a")), args: []string{"."}}}
	if err := runAll(t.Context(), false, 0, 2, runs, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

// The second folder's test passes if the first one's has ended.
func TestAFolderIsTestedAlone(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ended")
	first := module(t, fmt.Sprintf(`func TestFirst(t *testing.T) {
		time.Sleep(300 * time.Millisecond) // whoever runs beside it does not see its end
		if err := os.WriteFile(%q, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}`, mark))
	second := module(t, fmt.Sprintf(`func TestSecond(t *testing.T) {
		if _, err := os.Stat(%q); err != nil {
			t.Error(err)
		}
	}`, mark))
	var out strings.Builder
	if err := runAll(t.Context(), false, 1, 3, split([]string{first, ".", "--", second, "."}), &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestOneFolderFailsAndTheOthersRun(t *testing.T) {
	bad := module(t, `func TestBad(t *testing.T) { t.Error("wrong") }`)
	good := module(t, `func TestGood(t *testing.T) {}`)
	for _, beside := range []int{1, 2} {
		var out strings.Builder
		err := runAll(t.Context(), false, 0, beside, split([]string{bad, ".", "--", good, "-short", "."}), &out)
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
	if err := runAll(ctx, false, 0, 1, split([]string{module(t, `func TestA(t *testing.T) {}`), "."}), &out); err == nil {
		t.Error("tests that did not run have passed")
	}
	if want := "tests: 0 passed, 0 failed, 0 skipped\n"; out.String() != want {
		t.Errorf("shown = %q, want %q", &out, want)
	}
}
