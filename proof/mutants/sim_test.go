package main

import (
	"strings"
	"testing"
	"time"
)

func TestOutcomeOfARepeat(t *testing.T) {
	const begins, fine, bad = `{"Seed":7,"Begins":true,"Result":{"Wrong":null}}`, `{"Seed":7,"Result":{"Wrong":null}}`, `{"Seed":7,"Result":{"Wrong":["held twice"]}}`
	for name, tc := range map[string]struct {
		said        []string
		wrong, told bool
	}{
		"it passes":         {[]string{begins, fine, "PASS"}, false, true},
		"it fails":          {[]string{begins, bad, "PASS"}, true, true},
		"it does not end":   {[]string{begins}, false, false},
		"it panics":         {[]string{begins, "panic: seed 7 does not end"}, false, false},
		"nothing was there": {nil, false, false},
	} {
		if wrong, told := outcome([]byte(strings.Join(tc.said, "\n"))); wrong != tc.wrong || told != tc.told {
			t.Errorf("%s: wrong %t, told %t, want %t, %t", name, wrong, told, tc.wrong, tc.told)
		}
	}
}

func TestFindsAreSummedUp(t *testing.T) {
	all := finds{
		{mutant: "a", seed: 1, took: time.Second, again: 10, first: 1},
		{mutant: "b", seed: 2, took: 3 * time.Second, again: 1, first: 7},
		{mutant: "c", seed: 3, took: 2 * time.Second},
		{mutant: "d", took: limit + time.Second},
		{mutant: "e", seed: 4, took: 4 * time.Second, again: 2, first: 1, hung: 2},
	}
	want := "4 of 5 found, the median of all after 3s; of the seeds that found them 50% fail again at once, 75% within 10 repeats"
	if got := all.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (finds{{mutant: "d"}}).String(), "none of 1 found"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := all[4].String(); !strings.Contains(got, "by seed 4, which fails 2 of 10 times again, first at repeat 1 (2 did not end)") {
		t.Errorf("%q", got)
	}
}
