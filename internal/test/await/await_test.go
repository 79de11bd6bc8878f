package await_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/failtest"
)

// What has happened is seen at once, and what happens is seen when it does.
func TestWaitingEndsWithWhatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, after := time.Now(), 3*time.Second
		await.Until(t, "is there", func() bool { return true })
		c := make(chan int, 1)
		c <- 1
		if got := await.Receive(t, "a value", c); got != 1 {
			t.Errorf("Receive = %d, want 1", got)
		}
		close(c)
		if got := await.Receive(t, "the end", c); got != 0 {
			t.Errorf("Receive of a closed channel = %d, want 0", got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v to see what was there", took)
		}
		await.Until(t, "comes", func() bool { return time.Since(began) >= after })
		if took := time.Since(began); took != after {
			t.Errorf("it took %v, want %v", took, after)
		}
	})
}

// What does not happen ends the test in its time, and says what it was.
func TestWaitingInVainEndsTheTest(t *testing.T) {
	for name, wait := range map[string]func(tb testing.TB){
		"state":   func(tb testing.TB) { await.Until(tb, "pigs fly", func() bool { return false }) },
		"channel": func(tb testing.TB) { await.Receive(tb, "pigs fly", make(chan int)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, inner := time.Now(), failtest.New(t)
				ended := true
				inner.Run(func() {
					wait(inner)
					ended = false
				})
				if want := "not within 20s: pigs fly\n"; !inner.Failed() || !ended || inner.Said() != want {
					t.Errorf("it has ended the test: %v, and said %q, want %q", ended, inner.Said(), want)
				}
				if took := time.Since(began); took < await.Patience || took > await.Patience+time.Second {
					t.Errorf("it took %v, want %v", took, await.Patience)
				}
			})
		})
	}
}
