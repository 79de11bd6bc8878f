package keyfunc

// FormRequest is a [Request] of a call that may have a form in its body. The HTTP
// middlewares implement it; a gRPC call has no form.
type FormRequest interface {
	Request
	// Form returns the value of the form field called name. An error means that the
	// body could not be read, as in [Request.Body], or that handlers may read
	// another value.
	Form(name string) (string, bool, error)
}

// CookieRequest is a [Request] of a call that may have cookies. The HTTP
// middlewares implement it; a gRPC call has none.
type CookieRequest interface {
	Request
	// Cookie returns the value of the cookie called name. An error means that
	// handlers may read another value.
	Cookie(name string) (string, bool, error)
}

// ParamRequest is a [Request] that knows the parameters of its route. It is for routers
// that do not tell the route, or tell it in a spelling that [Params] cannot read. With
// the option WithParams, the Requests of httplock are ParamRequests.
type ParamRequest interface {
	Request
	// ParamNames returns the names of the route's parameters, in an order that is
	// the same for all requests to the route. The bool is false if the names must
	// be read from [Request.Route].
	ParamNames() ([]string, bool)
}

// As returns r as a T. If r is no T, it returns the first Request inside r that is one,
// as errors.As does with errors. A Request that wraps another one has a method Unwrap()
// Request; [Each] passes such Requests to its key. As returns false if none of them is
// a T. Funcs that need more than a Request call As with FormRequest or a type of their
// own.
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
