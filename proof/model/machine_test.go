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

// A message that a lock was released by force may be late as others are: seconds pass while it is on its way, and three at most.
func TestMessagesOfAReleaseByForceMayBeLate(t *testing.T) {
	z := Size{Lockers: 2, Claims: 1, Waits: true}
	m := newMachine(&z)
	t.Cleanup(m.lua.close)
	s := z.begin()
	m.deliver(s, publication{channel: prefix + "A", text: "revoked A.0 lock:{k}"})
	for passed := range 3 {
		if !z.mayPass(s) {
			t.Fatalf("no second may pass while the message is %d s old", passed)
		}
		s.real += second
	}
	if z.mayPass(s) {
		t.Error("a second may pass while the message is 3 s old")
	}
}
