package httpdoor

import (
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lockmw/kit/internal/door"
)

// A client can put one name into several places of a request: into the query,
// a form, a JSON body. Handlers differ in which of them they read, and some
// leave that to the Content-Type, which the client chooses. Where the key would
// be made from one place and a handler may read another, the request is refused.
var (
	errType    = door.NewFault("is to be in a JSON body, and the request does not say Content-Type: application/json", ": a handler may read it as something else")
	errInQuery = door.NewFault("is in the query as well", ", and which of them counts depends on the reader")
	errInPath  = door.NewFault("is missing in the body and a parameter of the route", ", which is where some readers look as well")
	errInForm  = door.NewFault("is in a form in the body as well", ", and which of them counts depends on the reader")

	errLongQuery = door.NewFault("is looked for in a query of more than 10,000 names", ", of which net/url reads none")
)

// saysJSON reports whether a request says that its body is JSON, and nothing
// else. Parameters, such as a charset, do not matter: encoding/json reads UTF-8
// whatever they say.
func saysJSON(h http.Header) bool {
	lines := h["Content-Type"]
	if len(lines) != 1 {
		return false // readers differ about which line counts
	}
	kind, _, err := mime.ParseMediaType(lines[0])
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

const (
	urlencoded = "application/x-www-form-urlencoded"
	multipart  = "multipart/form-data"
)

// says reports whether net/http may take the body for one of these kinds. It does so
// even if a parameter of the Content-Type is broken.
func says(h http.Header, kinds ...string) bool {
	return slices.ContainsFunc(h["Content-Type"], func(line string) bool {
		kind, _, _ := mime.ParseMediaType(line)
		return slices.Contains(kinds, kind)
	})
}

// mostInQuery is how many pairs net/url reads in a query; of one with more it reads none. To look
// through those, which may be half a million, would cost more than whatever else is done for a request.
const mostInQuery = 10_000

// isLongQuery reports whether a URL's query has more pairs than that.
func isLongQuery(raw string) bool {
	return len(raw) > mostInQuery && strings.Count(raw, "&") >= mostInQuery
}

// eachInQuery calls see for each pair of a URL's query, until that returns true, and
// reports whether it has. The name is decoded, the value is as it was sent.
func eachInQuery(raw string, see func(name, value string) bool) bool {
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, value, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(name, "%+") {
			var err error
			if name, err = url.QueryUnescape(name); err != nil {
				continue // no reader takes a name that cannot be decoded
			}
		}
		if see(name, value) {
			return true
		}
	}
	return false
}

// queryHas reports whether a name in a URL's query matches.
func queryHas(raw string, matches func(name string) bool) bool {
	return eachInQuery(raw, func(name, _ string) bool { return matches(name) })
}

// checkNames returns an error if a URL's query has the name more than once, with
// other values, or in another case.
func checkNames(raw, name string) error {
	if isLongQuery(raw) {
		return errLongQuery
	}
	var err error
	var first string
	found := false
	eachInQuery(raw, func(other, sent string) bool {
		if other != name {
			if sameButCase(other, name) {
				err = errCase
			}
			return err != nil
		}
		value, broken := url.QueryUnescape(sent)
		switch {
		case broken != nil || strings.Contains(sent, ";"): // net/url leaves it out
		case !found:
			first, found = value, true
		case value != first:
			err = door.ErrTwice
		}
		return err != nil
	})
	return err
}

// queryHasField reports whether a URL's query has a name that a binder may take
// for the body's field at path: the path itself or, where the body has no such
// field, its last name alone, because binders look for the fields of nested
// structs by that.
func queryHasField(raw, path string, inBody bool) bool {
	leaf := leafOf(path)
	return raw != "" && queryHas(raw, func(name string) bool {
		return alike(name, path) || !inBody && alike(name, leaf)
	})
}

// leafOf returns the last name of a path.
func leafOf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// alike reports whether two names are one but for case and punctuation. The
// field order_id of a body may be OrderID, customer.id or customer[id] in a query.
func alike(a, b string) bool { return sameButCase(lettersOf.Replace(a), lettersOf.Replace(b)) }

var lettersOf = strings.NewReplacer("_", "", "-", "", ".", "", "[", "", "]", "")

// CheckQuery has Enter refuse a request in which readers may take something else
// for the query's value called name than its first value. A view calls it where
// it returns that value.
//
// Of several values some take the first and some the last, and a name in another
// case is the same name to some binders. And what net/http
// calls a form is the query and the body together, of which the body's values
// come first; so the name must not be in a form in the body, which is read up to
// the limit for that.
func (v *Visit) CheckQuery(name string) {
	if v.known.find("query", name) != nil {
		return
	}
	v.known.add(fact{source: "query", name: name})
	if err := checkNames(v.outer.URL.RawQuery, name); err != nil {
		v.Refuse(door.Unread("query", name, err))
	}
	inForm, err := v.body.formHas(v.outer, v.door.bodyLimit, name)
	if err == nil && inForm {
		err = errInForm
	}
	if err != nil {
		v.Refuse(door.Unread("query", name, err))
	}
}

// formHas reports whether the body is a form that has the name, in any case.
func (b *body) formHas(r *http.Request, limit int64, name string) (bool, error) {
	switch {
	case hasFold(namesOf(r), name): // earlier middleware has parsed it
		return true, nil
	case r.MultipartForm != nil, r.PostForm != nil && !says(r.Header, multipart):
		return false, nil // it was parsed and has no such name, and nobody can parse it again
	case !says(r.Header, urlencoded, multipart):
		return false, nil
	}
	if err := b.load(r, limit); err != nil {
		return false, err
	}
	if b.form == nil {
		parsed, _ := parsedForm(r.Header, b.bytes, limit) // handlers use what was found before an error
		b.form = namesOf(parsed)
	}
	return hasFold(b.form, name), nil
}

// namesOf returns the names in the form that a request's body was parsed into.
func namesOf(r *http.Request) []string {
	names := slices.AppendSeq([]string{}, maps.Keys(r.PostForm))
	if r.MultipartForm != nil {
		names = slices.AppendSeq(names, maps.Keys(r.MultipartForm.Value))
		names = slices.AppendSeq(names, maps.Keys(r.MultipartForm.File))
	}
	return names
}

func hasFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return sameButCase(other, name) })
}
