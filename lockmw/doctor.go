package lockmw

import (
	"context"
	"errors"
	"fmt"
)

// A Severity is how bad a Finding is.
type Severity string

// The severities.
const (
	SeverityOK     Severity = "ok"     // all is as it should be
	SeverityAdvice Severity = "advice" // locks work, but something should be mended
	SeverityError  Severity = "error"  // no lock can be had, or not everywhere; Ping returns it as its error
)

// A Finding is one of the things that Doctor has found out.
type Finding struct {
	Severity Severity

	// Err is what is wrong, and says what to do about it. For SeverityError it is the error of Ping. For SeverityOK it is nil.
	Err error

	// What is the finding in words. If Err is not nil, it is the text of Err. It names commands and settings, and never keys or passwords.
	What string
}

// A Report is what Doctor has found: first the state of the server and then, if answers of Do are kept, whether they are safe there.
type Report []Finding

// Worst returns the worst severity of the report, and SeverityOK if all is well.
func (r Report) Worst() Severity {
	worst := SeverityOK
	for _, f := range r {
		if f.Severity == SeverityError || f.Severity == SeverityAdvice && worst == SeverityOK {
			worst = f.Severity
		}
	}
	return worst
}

// Doctor tells whether locks can work in the Locker's Redis, as Ping does. It also tells what should be mended although they work: a right
// that the user lacks and that locks can do without, a proxy that keeps a command from the server, a server that may evict locks when its
// memory is full, a clock that disagrees with this machine's, answers of Do that would not survive a restart. Doctor is for operators, and
// lockctl doctor prints what it returns. A service should stop only for the error of Ping, and log the report.
//
// Whatever Doctor finds is in the report. It returns an error only if nothing could be found out: ErrClosed after Close, or the error of
// ctx if that ended before the report was complete. Doctor takes some seconds at most. It takes no lock, and writes what Ping writes.
func (l *Locker) Doctor(ctx context.Context) (Report, error) {
	advice, err := l.health(ctx)
	switch {
	case errors.Is(err, ErrClosed):
		return nil, fmt.Errorf("lockmw: doctor: %w", ErrClosed)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("lockmw: doctor: %w", ctx.Err())
	case err != nil:
		return Report{{Severity: SeverityError, Err: err, What: err.Error()}}, nil //nolint:nilerr // it is what was found
	}
	var found Report
	if len(advice) == 0 {
		found = Report{{Severity: SeverityOK, What: "locks work in this Redis"}}
	}
	found = found.advise(advice)
	facts, advice := l.answersHealth(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lockmw: doctor: %w", ctx.Err())
	}
	for _, fact := range facts {
		found = append(found, Finding{Severity: SeverityOK, What: fact})
	}
	return found.advise(advice), nil
}

// advise returns the report with advice at its end.
func (r Report) advise(advice []error) Report {
	for _, one := range advice {
		r = append(r, Finding{Severity: SeverityAdvice, Err: one, What: one.Error()})
	}
	return r
}
