package door

import (
	"errors"
	"strconv"
	"strings"

	"github.com/lockmw/kit/lockmw"
)

// Recorded is err for what a framework records of a request: it Is and As what err is, but
// its text has no key. Middlewares for tracing export such texts, and keys are often private.
// The Locker's logger has them.
func Recorded(err error) error {
	refused, ok := errors.AsType[*lockmw.AcquireError](err)
	if !ok || refused.Key == "" {
		return err
	}
	text := strings.ReplaceAll(err.Error(), "acquire "+strconv.Quote(refused.Key), "acquire")
	quoted := strconv.Quote(refused.Key) // as a part of the name of a Redis key, see there
	return recorded{strings.ReplaceAll(text, "{"+quoted[1:len(quoted)-1]+"}", "{…}"), err}
}

type recorded struct {
	text string
	err  error
}

func (r recorded) Error() string { return r.text }

func (r recorded) Unwrap() error { return r.err }
