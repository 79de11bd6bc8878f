package main

import (
	"testing"

	"github.com/lockmw/kit/proof/model"
)

// A size of which all states are too many is looked at only by its whole name, and a whole name brings no other size.
func TestSizesAreAskedForByName(t *testing.T) {
	usual := len(model.Smallest) + len(model.Larger)
	largest := model.Largest[0].Name
	for name, tc := range map[string]struct {
		names []string
		least int
		most  int
	}{
		"none":                       {least: usual, most: usual},
		"a whole name":               {names: []string{"two take turns"}, least: 1, most: 1},
		"a part of names":            {names: []string{"a ticket, "}, least: 2, most: usual - 1},
		"one of the largest":         {names: []string{largest}, least: 1, most: 1},
		"a part of a largest's name": {names: []string{largest[2:]}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(sizes(tc.names)); got < tc.least || got > tc.most {
				t.Errorf("%q: %d sizes, want %d to %d", tc.names, got, tc.least, tc.most)
			}
		})
	}
}
