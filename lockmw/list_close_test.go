package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// What a caller does with a lock of a List keeps Close waiting neither when it stands still
// nor when it calls Close itself.
func TestCloseDoesNotWaitForALoopOverAList(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	for _, k := range []string{"a", "b"} {
		mustAcquire(t, l, k, lockmw.Policy{})
	}
	n, last := 0, error(nil)
	for _, err := range l.List(context.Background(), "") {
		if last = err; err != nil {
			continue
		}
		n++
		closed := make(chan error, 1)
		go func() { closed <- l.Close(over()) }()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("Close has not ended 20 s after its ctx")
		}
	}
	if n != 1 || !errors.Is(last, lockmw.ErrClosed) {
		t.Errorf("%d locks, then %v; want 1, %v", n, last, lockmw.ErrClosed)
	}
}
