package keyfunc

import (
	"slices"
	"strconv"
	"strings"
)

// A routeError says that a required value is missing in all requests to a route.
type routeError string

// Error says what the key needs, what the route has instead, and what to do.
func (e routeError) Error() string { return ErrMissing.Error() + ": " + string(e) }

// Is reports that this is ErrMisuse, and ErrMissing as well.
func (e routeError) Is(target error) bool { return target == ErrMisuse || target == ErrMissing }

// noRoute is the error where what is called label needs a route and none is known.
func noRoute(label string) error {
	return routeError(label + ": no route is known here; put the middleware on the route, not in front of the router")
}

// noParams is the error of Params for a route that has none.
func noParams(r Request) error {
	return routeError("params: " + routeOf(r) + " has no parameters")
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
	return routeError(label + ": " + routeOf(r) + " has no such parameter; " + has)
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
