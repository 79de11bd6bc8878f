package doortest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// heldOrNot returns two routes that differ in whether the response is held
// back: the usual one, and one at /held/{id}.
func (e *env) heldOrNot(handle func(x *Exchange) error) (paths []string) {
	e.Helper()
	buffered := 1000
	plain := e.route(handle)
	held := plain
	held.Path, held.Options.BufferedResponse = "/held/{id}", &buffered
	e.serve(plain, held)
	return []string{payPath, "/held/" + id}
}

func connectionIsWithinReach(e *env) {
	for _, path := range e.heldOrNot(func(x *Exchange) error {
		control := http.NewResponseController(x.W)
		later := time.Now().Add(time.Minute)
		for name, err := range map[string]error{
			"SetReadDeadline":  control.SetReadDeadline(later),
			"SetWriteDeadline": control.SetWriteDeadline(later),
			"EnableFullDuplex": control.EnableFullDuplex(),
		} {
			if err != nil {
				e.Errorf("%s: %v", name, err)
			}
		}
		return nil
	}) {
		e.wantStatus(e.do(e.request(http.MethodPost, path, nil)), http.StatusOK)
	}
	e.WantRuns(2)
}

func wrongStatusPanicsInTheHandler(e *env) {
	for _, path := range e.heldOrNot(func(x *Exchange) error {
		got := panicOf(func() {
			x.W.WriteHeader(42)
			_, _ = io.WriteString(x.W, "paid") // Gin keeps the status until then
		})
		if !strings.Contains(got, "42") {
			e.Errorf("panic = %q, want one about status 42", got)
		}
		panic(http.ErrAbortHandler)
	}) {
		r := e.request(http.MethodPost, path, nil)
		if response, err := e.server.Client().Do(r); err == nil {
			_ = response.Body.Close()
			e.Errorf("%s: the answer is %s, want none", path, response.Status)
		}
	}
	e.WantRuns(2)
}

// responseWithoutABodyTakesNone: what net/http does not send is not taken either.
func responseWithoutABodyTakesNone(e *env) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		for _, path := range e.heldOrNot(func(x *Exchange) error {
			x.W.Header().Set("X-Order", "7")
			x.W.WriteHeader(status)
			if n, err := io.WriteString(x.W, "paid"); n != 0 || err != http.ErrBodyNotAllowed { //nolint:errorlint // the very one
				e.Errorf("%d: to write a body: %d, %v; want %v", status, n, err, http.ErrBodyNotAllowed)
			}
			return nil
		}) {
			a := e.do(e.request(http.MethodPost, path, nil))
			if a.status != status || a.body != "" || a.header.Get("X-Order") != "7" {
				e.Errorf("%s: answer = %d %q %v, want %d and no body", path, a.status, a.body, a.header, status)
			}
		}
	}
	e.WantRuns(4)
}

func answerToHeadHasNoBody(e *env) {
	buffered := 1000
	plain := e.route(func(x *Exchange) error {
		x.W.Header().Set("X-Order", "7")
		x.W.WriteHeader(http.StatusAccepted)
		if n, err := io.WriteString(x.W, "paid"); n != len("paid") || err != nil {
			e.Errorf("to write: %d, %v", n, err)
		}
		return nil
	})
	plain.Method = http.MethodHead
	held := plain
	held.Path, held.Options.BufferedResponse = "/held/{id}", &buffered
	e.serve(plain, held)
	answers := make([]string, 0, 2)
	for _, path := range []string{payPath, "/held/" + id} {
		a := e.do(e.request(http.MethodHead, path, nil))
		a.header.Del("Date")
		answers = append(answers, fmt.Sprint(a))
		if a.status != http.StatusAccepted || a.body != "" || a.header.Get("X-Order") != "7" {
			e.Errorf("%s: answer = %d %q %v, want 202 and no body", path, a.status, a.body, a.header)
		}
	}
	if answers[0] != answers[1] {
		e.Errorf("held back: %s, want %s", answers[1], answers[0])
	}
	e.WantRuns(2)
}

func bodyOverItsLengthIsRefused(e *env) {
	for _, path := range e.heldOrNot(func(x *Exchange) error {
		x.W.Header().Set("Content-Length", "4")
		_, _ = io.WriteString(x.W, "paid")
		if _, err := io.WriteString(x.W, "twice"); err != http.ErrContentLength { //nolint:errorlint // the very one
			e.Errorf("to write more than the length: %v, want %v", err, http.ErrContentLength)
		}
		return nil
	}) {
		r := e.request(http.MethodPost, path, nil)
		r.Close = true // net/http closes the connection after such an answer
		if a := e.do(r); a.status != http.StatusOK || a.body != "paid" {
			e.Errorf("%s: answer = %d %q, want 200 paid", path, a.status, a.body)
		}
	}
	e.WantRuns(2)
}
