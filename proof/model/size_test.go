package model

import (
	"strings"
	"testing"
)

// Sizes whose fields do not go together are refused, since what was found of them would be worth nothing.
func TestSizesThatDoNotGoTogetherAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		size Size
		says string
	}{
		"no Locker":                             {size: Size{Claims: 1}, says: "too few or too many"},
		"four Lockers":                          {size: Size{Lockers: 4, Claims: 1}, says: "too few or too many"},
		"five claims":                           {size: Size{Lockers: 1, Claims: 5}, says: "too few or too many"},
		"three keys":                            {size: Size{Lockers: 1, Claims: 3, Keys: 3}, says: "too few or too many"},
		"half a call":                           {size: Size{Lockers: 2, Claims: 1, Keys: 2}, says: "no whole calls"},
		"one key at once":                       {size: Size{Lockers: 2, Claims: 1, AtOnce: true}, says: "for two keys"},
		"permits for two keys":                  {size: Size{Lockers: 2, Claims: 2, Keys: 2, Kinds: []Kind{Permit}}, says: "several keys are exclusive"},
		"claims that rest and want answers":     {size: Size{Lockers: 1, Claims: 2, Rests: true, Do: true}, says: "that rest are exclusive"},
		"a slot moves, and answers are kept":    {size: Size{Lockers: 2, Claims: 1, Do: true, May: []Fault{MoveSlot}}, says: "no answers"},
		"a reader that is like a writer":        {size: Size{Lockers: 2, Claims: 1, Alike: true, Kinds: []Kind{Exclusive, Shared}}, says: "are not alike"},
		"an issuer that is like its successor":  {size: Size{Lockers: 2, Claims: 1, Alike: true, Roles: []Role{Issues, Resumes}}, says: "are not alike"},
		"answers of those that are alike":       {size: Size{Lockers: 2, Claims: 1, Alike: true, Do: true}, says: "not renamed"},
		"locks that stay of those that are":     {size: Size{Lockers: 2, Claims: 1, Alike: true, Stays: true}, says: "not renamed"},
		"those that are alike in another order": {size: Size{Lockers: 2, Claims: 2, Keys: 2, Alike: true, Hole: OwnOrder}, says: "another order"},
		"notes without Do":                      {size: Size{Lockers: 2, Claims: 1, Notes: true}, says: "goes with Do"},
		"again without notes":                   {size: Size{Lockers: 2, Claims: 1, Do: true, Again: 1}, says: "goes with Notes"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.size.Name = name
			if _, err := Explore(tc.size, 1, false); err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), name) {
				t.Errorf("Explore returned %v, want an error that names the size, and says %q", err, tc.says)
			}
		})
	}
}

// All sizes that are looked at can be.
func TestSizesCanBeLookedAt(t *testing.T) {
	for _, sizes := range [][]Size{Smallest, Larger, Largest} {
		for _, z := range sizes {
			if err := z.possible(); err != nil {
				t.Errorf("%s: %v", z.Name, err)
			}
		}
	}
}
