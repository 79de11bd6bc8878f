package httpdoor

import (
	"encoding/json"
	"net/http"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/lockmw"
)

// A Problem is the body of a refusal, as RFC 9457 has it.
type Problem struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	Code         string `json:"code"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// ProblemOf returns the body that tells of the refusal.
func ProblemOf(refusal lockmw.Refusal) Problem {
	return Problem{
		Type: "about:blank", Title: http.StatusText(refusal.Status), Status: refusal.Status, Detail: refusal.Detail,
		Code: refusal.Code, RetryAfterMS: refusal.RetryAfter.Milliseconds(),
	}
}

// String returns the problem in short, for logs.
func (p Problem) String() string { return p.Title + " (" + p.Code + ")" }

// SetProblemHeader prepares h for the body that tells of the refusal. What it may say of
// another answer is taken back, but for the Content-Encoding: outer middleware
// that compresses has set it, and compresses this body too.
func SetProblemHeader(h http.Header, r *http.Request, refusal lockmw.Refusal) {
	for _, name := range []string{"Content-Length", "ETag", "Last-Modified", "Retry-After"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if seconds := door.RetryAfter(refusal); seconds != "" {
		h.Set("Retry-After", seconds)
	}
	if refusal.Status == http.StatusRequestEntityTooLarge && r.ProtoMajor == 1 {
		h.Set("Connection", "close") // rather than read the rest of the body
	}
}

// WriteProblem answers r with the refusal. If the client is gone only the status is set,
// for those who log it.
func WriteProblem(w http.ResponseWriter, r *http.Request, refusal lockmw.Refusal) {
	if door.ClientGone(refusal) {
		w.WriteHeader(refusal.Status)
		return
	}
	body, err := json.Marshal(ProblemOf(refusal))
	if err != nil {
		panic(err) // it has strings and numbers only
	}
	SetProblemHeader(w.Header(), r, refusal)
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(append(body, '\n')) // to a client that left, perhaps
}
