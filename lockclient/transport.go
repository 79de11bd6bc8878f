package lockclient

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// A Transport sends requests. If a request was refused because of a lock, it sends the request again, as its Budget says. It is an http.RoundTripper,
// safe for concurrent use, and its zero value is ready to use.
//
// The caller is given the last answer, as it came; if the budget is used up, that is a refusal. If the request's context ends in a pause, the caller
// is given the context's error. A request is sent only once if its body cannot be sent a second time, because it has a Body and no GetBody.
// (http.NewRequest makes a GetBody for bytes and strings.) A try may begin before the previous one has read all of its body, so GetBody must return
// another reader each time.
//
// The code is in the body of the answer. So a HEAD request is sent only once, and so is a request whose caller has asked for a compressed answer and
// gets one. The Jar of an http.Client does not see the cookies of a refusal after which the request is sent again.
type Transport struct {
	Base   http.RoundTripper // sends each try; nil: http.DefaultTransport
	Budget Budget
}

const (
	// maxProblem is more than a refusal of the middlewares has bytes, and readFor is longer than it takes to arrive. What has more, or is slower, is not one.
	maxProblem = 64 << 10
	readFor    = 5 * time.Second
)

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.base()
	hasBody := r.Body != nil && r.Body != http.NoBody
	if hasBody && r.GetBody == nil {
		return base.RoundTrip(r)
	}
	var answer *http.Response
	var failed error
	request := r
	ended := t.Budget.Ask(r.Context(), func() (string, time.Duration) {
		if answer != nil { // and it was a refusal
			if request, failed = onceMore(r, hasBody); failed != nil {
				return "", 0
			}
		}
		if answer, failed = base.RoundTrip(request); failed != nil { //nolint:bodyclose // refusalIn closes that of a refusal, the caller any other
			return "", 0
		}
		return refusalIn(answer)
	})
	switch {
	case ended != nil:
		return nil, ended
	case failed != nil:
		return nil, failed
	}
	return answer, nil
}

// CloseIdleConnections closes the idle connections of Base, if Base can do that. It is called by http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if closes, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		closes.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// onceMore returns the request with a body that was not read yet.
func onceMore(r *http.Request, hasBody bool) (*http.Request, error) {
	next := r.Clone(r.Context())
	if !hasBody {
		return next, nil
	}
	var err error
	next.Body, err = r.GetBody()
	return next, err
}

// refusalIn returns the code of an answer that is a refusal of the middlewares, and its Retry-After. Whoever reads the answer's body afterwards reads all of it.
func refusalIn(answer *http.Response) (code string, after time.Duration) {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // one that cannot be read is another one
	after = retryAfter(answer.Header.Get("Retry-After"))
	isKept := answer.Header.Get("Idempotent-Replayed") != "" // it would be the same again
	if answer.StatusCode < http.StatusBadRequest || kind != "application/problem+json" || after <= 0 || isKept || answer.Body == nil {
		return "", 0
	}
	body := answer.Body
	tooSlow := time.AfterFunc(readFor, func() { _ = body.Close() })
	text, err := io.ReadAll(io.LimitReader(body, maxProblem))
	tooSlow.Stop()
	if err != nil || len(text) == maxProblem {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(text), body), body}
		return "", 0
	}
	_ = body.Close() // it was read to its end
	answer.Body = io.NopCloser(bytes.NewReader(text))
	var problem struct {
		Code  string
		After int64 `json:"retry_after_ms"` // as Retry-After, which has whole seconds
	}
	if json.Unmarshal(text, &problem) != nil {
		return "", 0
	}
	if problem.After > 0 && problem.After < after.Milliseconds() {
		after = time.Duration(problem.After) * time.Millisecond
	}
	return problem.Code, after
}

// retryAfter reads the header of that name: seconds, or a date (RFC 9110, 10.2.3). Zero: there is none that can be read.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return time.Until(at)
	}
	return 0
}
