package echolock

import (
	"encoding/json"
	"log/slog"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/lockmw"
)

// A refusal is the error of a request that does not get the lock, or loses it. Echo's
// DefaultHTTPErrorHandler writes its JSON; other handlers find its status by
// echo.StatusCode, and by errors.As an *echo.HTTPError, whose message may be shown.
type refusal struct {
	error   // the *echo.HTTPError, which wraps the reason
	problem httpdoor.Problem
}

// Refusal returns a *refusal.
func (version) Refusal(o lockmw.Refusal, err error) error {
	problem := httpdoor.ProblemOf(o)
	return &refusal{error: echo.NewHTTPError(o.Status, problem.String()).Wrap(err), problem: problem}
}

// Answers reports whether err has a status. One that it wraps may be that of a handler
// which lost the lock.
func (version) Answers(err error) bool {
	_, answers := err.(echo.HTTPStatusCoder)
	return answers
}

// Unwrap returns the *echo.HTTPError.
func (r *refusal) Unwrap() error { return r.error }

// StatusCode is for Echo.
func (r *refusal) StatusCode() int { return r.problem.Status }

// MarshalJSON returns the problem.
func (r *refusal) MarshalJSON() ([]byte, error) { return json.Marshal(r.problem) }

// LogValue returns the error's text: slog would have the problem in its place.
func (r *refusal) LogValue() slog.Value { return slog.StringValue(r.Error()) }

// ProblemError is for echo.ProblemDetailsHTTPErrorHandler, which knows no other fields.
func (r *refusal) ProblemError() *echo.ProblemError {
	return &echo.ProblemError{Type: r.problem.Type, Title: r.problem.Title, Status: r.problem.Status, Detail: r.problem.Detail}
}

// Render has the HTTPErrorHandler answer err.
func (version) Render(c *echo.Context, err error) { c.Echo().HTTPErrorHandler(c, err) }
