package door_test

import (
	"encoding/hex"
	"testing"

	"github.com/lockmw/kit/internal/door"
)

func TestDigestTellsListsOfTextsApart(t *testing.T) {
	seen := make(map[string][]string)
	for _, texts := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {"b", "a"}, {"a\x00b"}} {
		sum := hex.EncodeToString(door.NewDigest(texts...).Sum())
		if other, twice := seen[sum]; twice {
			t.Errorf("%q and %q have one digest", texts, other)
		}
		seen[sum] = texts
	}
}
