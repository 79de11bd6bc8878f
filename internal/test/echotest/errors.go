package echotest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func (v Version[C]) centralErrorHandlerIsAskedOnce(t *testing.T) {
	locks, client := testenv.Locker(t)
	occupy(client)
	var errs []error
	e := v.New(false)
	e.OnError(func(_ C, err error) bool {
		errs = append(errs, err)
		return true
	})
	logged := 0
	e.Around(v.Logger(func(status int, err error) {
		logged++
		if status != http.StatusConflict || !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("logged %d, %v; want 409 and the refusal", status, err)
		}
	}))
	e.Route(http.MethodPost, "/", unreachable[C](t), v.lock(locks))
	w := send(e, http.MethodPost, "/")
	if w.Code != http.StatusConflict || w.Header().Get("Content-Type") != "application/problem+json" || logged != 1 {
		t.Errorf("answer = %d %v, logged %d times", w.Code, w.Header(), logged)
	}
	if len(errs) != 1 || v.Status(errs[0]) != http.StatusConflict || !errors.Is(errs[0], lockmw.ErrNotAcquired) {
		t.Errorf("errors = %v, want one with the status 409", errs)
	}
}

func (v Version[C]) centralErrorHandlerMayAnswerInItsOwnWay(t *testing.T) {
	locks, client := testenv.Locker(t)
	occupy(client)
	e := v.New(false)
	e.OnError(func(c C, _ error) bool {
		v.Writer(c).Header().Set("Content-Type", "text/plain")
		_ = c.String(http.StatusTooManyRequests, "later")
		return false
	})
	e.Route(http.MethodPost, "/", unreachable[C](t), v.lock(locks))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusTooManyRequests || w.Body.String() != "later" || w.Header().Get("Retry-After") == "" {
		t.Errorf("answer = %d %q %v, want 429 later", w.Code, w.Body, w.Header())
	}
}

func (v Version[C]) errorOfAnErrorHandlerIsEchos(t *testing.T) {
	for name, wraps := range map[string]bool{"of its own": false, "that wraps the refusal": true} {
		t.Run(name, func(t *testing.T) {
			locks, client := testenv.Locker(t)
			occupy(client)
			e := v.New(false)
			e.Route(http.MethodPost, "/", unreachable[C](t), v.lock(locks, v.WithErrorHandler(func(_ C, err error) error {
				if !wraps {
					err = nil
				}
				return v.Error(http.StatusLocked, "later", err)
			})))
			if w := send(e, http.MethodPost, "/"); w.Code != http.StatusLocked || !strings.Contains(w.Body.String(), "later") {
				t.Errorf("answer = %d %q, want 423 later", w.Code, w.Body)
			}
		})
	}
}

// An error handler that only logs returns the error it got, of which Echo would make
// 500, and with Echo.Debug show its text.
func (v Version[C]) errorThatIsHandedOnIsTheRefusal(t *testing.T) {
	for name, handle := range map[string]func(error) error{
		"as it is":            func(err error) error { return err },
		"wrapped":             func(err error) error { return fmt.Errorf("pay: %w", err) },
		"its reason":          errors.Unwrap,
		"its reason, wrapped": func(err error) error { return fmt.Errorf("pay: %w", errors.Unwrap(err)) },
	} {
		t.Run(name, func(t *testing.T) {
			locks, client := testenv.Locker(t)
			occupy(client)
			e := v.New(true)
			var central error
			e.OnError(func(_ C, err error) bool {
				central = err
				return true
			})
			e.Route(http.MethodPost, "/", unreachable[C](t), v.lock(locks, v.WithErrorHandler(func(_ C, err error) error { return handle(err) })))
			w := send(e, http.MethodPost, "/")
			if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), lockmw.CodeBusy) || strings.Contains(w.Body.String(), "held by") {
				t.Errorf("answer = %d %s, want 409 %s without the error's text", w.Code, w.Body, lockmw.CodeBusy)
			}
			if !errors.Is(central, lockmw.ErrNotAcquired) {
				t.Errorf("Echo's error handler got %v, want one that Is %v", central, lockmw.ErrNotAcquired)
			}
		})
	}
}

func (v Version[C]) refusedHeadHasNoBody(t *testing.T) {
	locks, client := testenv.Locker(t)
	occupy(client)
	e := v.New(false)
	e.Route(http.MethodHead, "/", unreachable[C](t), v.lock(locks))
	if w := send(e, http.MethodHead, "/"); w.Code != http.StatusConflict || w.Body.Len() > 0 {
		t.Errorf("answer = %d %q, want 409 alone", w.Code, w.Body)
	}
}

func (v Version[C]) handlersErrorAndTheLossAreBothSeen(t *testing.T) {
	errHandler := errors.New("out of stock")
	for _, tc := range []struct {
		written string
		status  int
		body    string
	}{
		{"", http.StatusInternalServerError, "LOCK_LOST"},
		{"written", http.StatusOK, "written"},
	} {
		locks, client := testenv.Locker(t)
		var seen error
		e := v.New(false)
		e.OnError(func(_ C, err error) bool {
			seen = err
			return true
		})
		e.Route(http.MethodPost, "/", func(c C) error {
			if tc.written != "" {
				_ = c.String(http.StatusOK, tc.written)
			}
			lose(client)
			return errHandler
		}, v.lock(locks))
		w := send(e, http.MethodPost, "/")
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.body) || strings.Contains(w.Body.String(), "stock") {
			t.Errorf("answer = %d %q, want %d %s", w.Code, w.Body, tc.status, tc.body)
		}
		if !errors.Is(seen, errHandler) || !errors.Is(seen, lockmw.ErrLost) {
			t.Errorf("error = %v, want both", seen)
		}
		if strings.Contains(seen.Error(), "\n") {
			t.Errorf("the error has several lines: %q", seen)
		}
	}
}

func (v Version[C]) recoverAnswersInPlaceOfAHeldResponse(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	e.Around(v.Recover())
	e.Route(http.MethodPost, "/", func(c C) error {
		_ = c.String(http.StatusOK, "half")
		panic("broken")
	}, v.lock(locks, v.WithBufferedResponse(10)))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "half") {
		t.Errorf("answer = %d %q, want 500 and nothing of the handler's", w.Code, w.Body)
	}
}

func (v Version[C]) errorAfterAHeldResponseChangesNothing(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	e.Route(http.MethodPost, "/", func(c C) error {
		_ = c.String(http.StatusCreated, "done")
		return errors.New("too late")
	}, v.lock(locks, v.WithBufferedResponse(10)))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusCreated || w.Body.String() != "done" {
		t.Errorf("answer = %d %q, want 201 done", w.Code, w.Body)
	}
}

func (v Version[C]) errorOfAHeldHandlerIsAnswered(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	e.Route(http.MethodPost, "/", func(C) error { return v.Error(http.StatusTeapot, "no", nil) },
		v.lock(locks, v.WithBufferedResponse(10)))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusTeapot || !strings.Contains(w.Body.String(), "no") {
		t.Errorf("answer = %d %q, want 418 no", w.Code, w.Body)
	}
}

// What outer middleware does when an answer begins, such as to set a cookie, is done
// once: not also for the answer that is taken back.
func (v Version[C]) answerThatIsTakenBackHasNotBegun(t *testing.T) {
	locks, client := testenv.Locker(t)
	e := v.New(false)
	began := 0
	e.Around(func(next func(C) error) func(C) error {
		return func(c C) error {
			v.Before(c, func() { began++ })
			return next(c)
		}
	})
	e.Route(http.MethodPost, "/", func(c C) error {
		_ = c.String(http.StatusOK, "done")
		lose(client)
		return nil
	}, v.lock(locks, v.WithBufferedResponse(10)))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "done") {
		t.Errorf("answer = %d %q, want 500 and nothing of the handler's", w.Code, w.Body)
	}
	if began != 1 {
		t.Errorf("an answer began %d times, want 1", began)
	}
}

// A handler that flushes has answered, though Echo counts no call of WriteHeader.
func (v Version[C]) answerPastEchosCountIsOne(t *testing.T) {
	locks, client := testenv.Locker(t)
	e := v.New(false)
	e.Route(http.MethodPost, "/", func(c C) error {
		if err := http.NewResponseController(v.Writer(c)).Flush(); err != nil {
			t.Error(err)
		}
		lose(client)
		return nil
	}, v.lock(locks))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusOK || w.Body.Len() > 0 {
		t.Errorf("answer = %d %q, want 200 alone", w.Code, w.Body)
	}
}
