package keyfunc

// FormRequest is a [Request] of a call that may bring a form in its body. The
// HTTP middlewares implement it; a gRPC call has no form.
type FormRequest interface {
	Request
	// Form returns the value called name of the form in the body. An error
	// means that the body could not be read, as in [Request.Body], or that
	// handlers may take something else for the value.
	Form(name string) (string, bool, error)
}

// CookieRequest is a [Request] of a call that may bring cookies. The HTTP
// middlewares implement it; a gRPC call has none.
type CookieRequest interface {
	Request
	// Cookie returns the value of the cookie called name. An error means that
	// handlers may take something else for the value.
	Cookie(name string) (string, bool, error)
}

// ParamRequest is a [Request] of a call whose router does not tell its route, or tells
// it in a spelling that [Params] cannot read. httplock has such ones with WithParams.
type ParamRequest interface {
	Request
	// ParamNames returns the names of the route's parameters, in an order that
	// is the same for all requests to the route. It is false where they are to be
	// read from [Request.Route].
	ParamNames() ([]string, bool)
}

// As returns r as a T, or the Request inside r that is a T, as errors.As does with
// errors. A Request that wraps another one has a method Unwrap() Request: [Each] gives
// such ones to its key. As returns false if none of them is a T. Funcs that need more
// than a Request call it with FormRequest or a type of their own.
func As[T Request](r Request) (t T, ok bool) {
	for r != nil {
		if t, ok = r.(T); ok {
			return t, true
		}
		outer, wraps := r.(interface{ Unwrap() Request })
		if !wraps {
			break
		}
		r = outer.Unwrap()
	}
	return t, false
}
