package httplock_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A refused client is told to come back after about as long as the jobs of another
// process take, and after a second where nothing is known of them.
func TestRetryAfterIsAsLongAsJobsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testenv.New(t, redistest.InMemory(t))
		elsewhere := r.NewLocker()
		policy := lockmw.Policy{Prefix: "order:"}
		handler := httplock.Middleware(r.Locks, keyfunc.Const("42"), policy)(http.NotFoundHandler())
		var got []string
		for range 4 {
			_, lease, err := elsewhere.Acquire(context.Background(), "42", policy)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // clients ask at 0, 0.5 and 1 s of a job of 1.5 s
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
				got = append(got, w.Header().Get("Retry-After"))
				time.Sleep(500 * time.Millisecond)
			}
			r.Release(lease)
		}
		for i, seconds := range got {
			if seconds != "1" && (i < 3 || seconds != "2") {
				t.Errorf("Retry-After = %q in job %d, want 1, and from the second on 1 or 2: %q", seconds, i/3+1, got)
			}
		}
	})
}
