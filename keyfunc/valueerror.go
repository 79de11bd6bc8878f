package keyfunc

// A ValueError says which value of a request makes no part of a key, and why. The Funcs made here
// return it where one value is at fault, for [errors.As]; it Is [ErrMissing], [ErrInvalidValue], or
// what the [Request] has returned.
//
// Source, Name and Reason are what the middlewares tell clients. They come from the program (the
// template, the route, this package), and nothing that a request brings is in them. A Func of your
// own may return a ValueError, to have a value of its own named; then that is its affair.
type ValueError struct {
	Source string // where the value was looked for, as templates call it: "param", "query", "body", …
	Name   string // as the template or the route has it; empty for the method
	// Reason says what is wrong, to be read behind the name: "is missing", "is longer than 8 KiB",
	// "is not an integer", "is not a UUID", "has more than 64 elements". It is empty where the value
	// cannot be used for a reason that only Err tells.
	Reason string
	Err    error // all of it, for logs; not nil
}

// Error returns the text of Err, which names the value as well.
func (e *ValueError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ValueError) Unwrap() error { return e.Err }

// fails returns the error of v. The reason is for clients.
func (v *value) fails(reason string, err error) error {
	return &ValueError{Source: string(v.source), Name: v.name, Reason: reason, Err: err}
}
