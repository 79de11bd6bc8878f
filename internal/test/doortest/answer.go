package doortest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmw/kit/internal/httpdoor"
)

// An answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (e *env) wantStatus(a answer, want int) {
	e.Helper()
	if a.status != want {
		e.Errorf("status = %d, want %d; body: %s", a.status, want, a.body)
	}
}

// secrets are what no answer may show, in lower case, beside those of an Env.
var secrets = []string{strings.TrimSuffix(prefix, ":"), id, "redis", "lockmw", "keyfunc", "httpdoor", "wrongtype", "dial", "127.0.0.1", "http:"}

// wantProblem fails the test unless a is the problem with that status and
// code, complete and with nothing else in it.
func (e *env) wantProblem(a answer, status int, code string) {
	e.Helper()
	e.wantStatus(a, status)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		e.Errorf("Content-Type = %q, want application/problem+json", got)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		e.Errorf("Cache-Control = %q, want no-store", got)
	}
	var p map[string]any
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		e.Errorf("the body is no JSON: %v: %q", err, a.body)
		return
	}
	for name, want := range map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": float64(status), "code": code,
	} {
		if p[name] != want {
			e.Errorf("%s = %v, want %v", name, p[name], want)
		}
	}
	if detail, _ := p["detail"].(string); detail == "" {
		e.Errorf("detail = %v, want a sentence", p["detail"])
	}
	e.wantRetry(a.header.Get("Retry-After"), p["retry_after_ms"], code)
	for name := range p {
		if !slices.Contains([]string{"type", "title", "status", "detail", "code", "retry_after_ms"}, name) {
			e.Errorf("the body has a member %q", name)
		}
	}
	e.wantNoSecrets(a)
}

// wantDetail fails the test unless the problem says exactly that of the request: it may name what
// the program looks for, and nothing that the request brings.
func (e *env) wantDetail(a answer, says string) {
	e.Helper()
	var p httpdoor.Problem
	err := json.Unmarshal([]byte(a.body), &p)
	if want := "The request does not name the resource it is about: " + says + "."; err != nil || p.Detail != want {
		e.Errorf("detail = %q (%v), want %q", p.Detail, err, want)
	}
}

// wantRetry checks when the client is told to come back.
func (e *env) wantRetry(header string, ms any, code string) {
	e.Helper()
	switch code {
	case "LOCK_LOST", "LOCK_KEY_INVALID", "LOCK_MISUSE", "LOCK_COOLDOWN", "IDEMPOTENCY_UNCERTAIN",
		"IDEMPOTENCY_KEY_MISSING", "IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_ANSWER_NOT_KEPT":
		if header != "" || ms != nil {
			e.Errorf("Retry-After = %q, retry_after_ms = %v; want none", header, ms)
		}
		return
	}
	seconds, err := strconv.Atoi(header)
	millis, _ := ms.(float64)
	if err != nil || seconds < 1 || seconds > 30 || millis > float64(seconds*1000) || millis <= float64((seconds-1)*1000) {
		e.Errorf("Retry-After = %q, retry_after_ms = %v; want 1 to 30 s, the same in both", header, ms)
	}
}

func (e *env) wantNoSecrets(a answer) {
	e.Helper()
	text := a.body
	for name, values := range a.header {
		text += "\n" + name + ": " + strings.Join(values, ", ")
	}
	text = strings.ToLower(text)
	for _, secret := range slices.Concat(secrets, e.Secrets(lockKey)) {
		if strings.Contains(text, secret) {
			e.Errorf("the answer shows %q: %s", secret, text)
		}
	}
}
