package keyfunc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A misuse is an error of the program: it Is ErrMisuse, and the error that says
// what a request lacks.
type misuse struct{ error }

// Is reports that this is ErrMisuse; Unwrap leads to what else it is.
func (m misuse) Is(target error) bool { return target == ErrMisuse }

// Unwrap returns what the request lacks.
func (m misuse) Unwrap() error { return m.error }

// missesRoute is the error of a value that is missing in all requests to a route. It
// says what the key needs, what the route has instead, and what to do.
func missesRoute(format string, args ...any) error {
	return misuse{fmt.Errorf("%w: "+format, append([]any{ErrMissing}, args...)...)}
}

// misused is err, which is about how the program has put Funcs together, or about
// what it has stored, and not about what a request brings.
func misused(err error) error { return misuse{err} }

// noRoute is the error where what is called label needs a route and none is known.
func noRoute(label string) error {
	return missesRoute("%s: no route is known here; put the middleware on the route, not in front of the router", label)
}

// noParams is the error of Params for a route that has none.
func noParams(r Request) error {
	return missesRoute("params: %s has no parameters", routeOf(r))
}

// checkRoute returns an error if r's route has no parameter of that name. What
// needs it is called label.
func checkRoute(r Request, name, label string) error {
	names, known := paramNames(r)
	switch {
	case !known:
		return noRoute(label)
	case slices.Contains(names, name):
		return nil
	}
	has := "it has none"
	if len(names) > 0 {
		for i, name := range names {
			names[i] = strconv.Quote(name)
		}
		has = "it has " + strings.Join(names, ", ")
	}
	return missesRoute("%s: %s has no such parameter; %s", label, routeOf(r), has)
}

func routeOf(r Request) string {
	if route := r.Route(); route != "" {
		return "route " + strconv.Quote(route)
	}
	return "the route"
}

// paramNames returns a new slice with the names of the parameters that r's route
// has. It is false if no route is known.
func paramNames(r Request) (names []string, known bool) {
	if r, ok := As[ParamRequest](r); ok {
		if names, ok := r.ParamNames(); ok {
			return slices.Clone(names), true
		}
	}
	rest := r.Route()
	if rest == "" {
		return nil, false
	}
	for next := nextParam(rest); ; {
		name, after, ok := next(rest)
		if !ok {
			return names, true
		}
		names, rest = append(names, name), after
	}
}
