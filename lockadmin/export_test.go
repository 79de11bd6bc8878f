package lockadmin

import (
	"net/http"
	"testing"
	"time"
)

// AwaitIdle waits until no page of h is open, and nothing is read for one any more.
func AwaitIdle(t *testing.T, h http.Handler, within time.Duration) {
	t.Helper()
	s := &h.(*console).streams
	late := time.After(within)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		open, ended := s.open, s.before
		s.mu.Unlock()
		if open == 0 {
			select {
			case <-ended:
			case <-late:
				t.Fatalf("Redis is read for no page after %v", within)
			}
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d pages are open after %v", open, within)
		}
	}
}
