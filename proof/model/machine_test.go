package model

import "testing"

// What a script has done is remembered of that script alone, whatever number of scripts was compiled between two. A machine that knew a
// script by one byte of its place answered for the 256th one after it.
func TestScriptsAreNotTakenForOneAnother(t *testing.T) {
	only := func(text string) *script { return compile(t, map[string]string{"it": text})["it"] }
	first, second := only("return 1"), only("return 2")
	for uint8(second.id) != uint8(first.id) {
		second = only("return 2")
	}
	z := Size{Lockers: 2, Claims: 1}
	m := newMachine(&z)
	t.Cleanup(m.lua.close)
	for _, tc := range []struct {
		script *script
		want   int64
	}{{first, 1}, {second, 2}, {first, 1}} {
		if got := m.run(m.server(z.begin(), 0), tc.script, nil); got != tc.want {
			t.Errorf("the script that returns %d has returned %v", tc.want, got)
		}
	}
}
