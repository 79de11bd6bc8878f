package door_test

import (
	"errors"
	"testing"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Frameworks record the error of a lost lock, and export it with traces.
func TestALossNamesNoKey(t *testing.T) {
	for _, keys := range [][]string{{"secret"}, {"secret", "secret2"}} {
		locks, client := testenv.Locker(t)
		_, lease, err := locks.AcquireAll(t.Context(), keys, lockmw.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		client.Del(t.Context(), "lock:{secret}")
		if lost := door.Release(t.Context(), lease); !errors.Is(lost, lockmw.ErrLost) || lost.Error() != lockmw.ErrLost.Error() {
			t.Errorf("%q: the loss is %v, want %v", keys, lost, lockmw.ErrLost)
		}
	}
}
