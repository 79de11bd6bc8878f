package door

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmw/kit/lockmw"
)

// Recorded is err for what a framework records of a request: it Is and As what err is, but
// neither its text nor that of an error which it unwraps to has a key. Middlewares for tracing export
// such texts, of each link of the chain, and keys are often private. The Locker's logger has them, and
// whoever asks for the *lockmw.AcquireError by errors.As.
func Recorded(err error) error {
	refused, ok := errors.AsType[*lockmw.AcquireError](err)
	if !ok || refused.Key == "" {
		return err
	}
	text := strings.ReplaceAll(err.Error(), "acquire "+strconv.Quote(refused.Key), "acquire")
	quoted := strconv.Quote(refused.Key) // as a part of the name of a Redis key, see there
	return recorded{strings.ReplaceAll(text, "{"+quoted[1:len(quoted)-1]+"}", "{…}"), err}
}

// HandsOn reports whether own, which an error handler has returned, is what it was told, or has
// that or a part of it in it: the text of own has what is not for clients then, such as the key or
// what Redis has said. That of any other error is the handler's own.
func HandsOn(own, told error) bool {
	if own == nil {
		return false
	}
	if errors.Is(own, told) || errors.Is(told, own) {
		return true
	}
	switch wraps := own.(type) { //nolint:errorlint // it goes through all that own wraps
	case interface{ Unwrap() error }:
		return HandsOn(wraps.Unwrap(), told)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(wraps.Unwrap(), func(err error) bool { return HandsOn(err, told) })
	}
	return false
}

type recorded struct {
	text string
	err  error
}

func (r recorded) Error() string { return r.text }

func (r recorded) Is(target error) bool { return errors.Is(r.err, target) }

func (r recorded) As(target any) bool { return errors.As(r.err, target) }
