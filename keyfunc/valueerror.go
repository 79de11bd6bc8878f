package keyfunc

// A ValueError says which value of a request cannot be part of a key, and why. The Funcs made here
// return it where one value is at fault; find it with [errors.As]. It Is [ErrMissing],
// [ErrInvalidValue], or what the [Request] has returned.
//
// The middlewares tell clients Source, Name and Reason. These come from the program (the template,
// the route, this package), and contain nothing from the request. A Func of your own may return a
// ValueError to name a value of its own. The Func must then make sure of the same.
type ValueError struct {
	Source string // where the value comes from, as templates call it: "param", "query", "body", …
	Name   string // as the template or the route has it; empty for the method and the route
	// Reason says what is wrong, as a text that follows the name: "is missing", "is longer than
	// 8 KiB", "is not an integer", "is not a UUID", "has more than 64 elements". It is empty if
	// only Err tells the reason.
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
