package httpdoor

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"github.com/lockmw/kit/internal/door"
)

// Why no key may be made from a form, or a cookie.
var (
	errNoForm     = door.NewFault("is to be in a form, and the request does not say that its body is one", ": a handler may read it as something else")
	errFormMethod = door.NewFault("is to be in a form, which other methods than POST, PUT and PATCH do not have", "; to some readers they do")
	errBrokenForm = door.NewFault("is to be in a form, and the body is a broken one", ": what is in it depends on the reader")
	errFile       = door.NewFault("is a file", "")
)

// Form returns the value called name of the form that is the body, URL-encoded or
// multipart. The error is an *http.MaxBytesError if the body is over the limit. A
// body that is not said to be a form is an error, and so is every name that
// handlers may find more than one value for: in the form, in the query, or, where
// the form does not have it, in the route.
func (v *Visit) Form(name string) (string, bool, error) {
	if known := v.known.find("form", name); known != nil {
		return known.text, known.ok, known.err
	}
	text, ok, err := v.formValue(name)
	v.known.add(fact{"form", name, text, ok, err})
	return text, ok, err
}

func (v *Visit) formValue(name string) (string, bool, error) {
	form, err := v.body.formFor(v.outer, v.door.bodyLimit)
	if err != nil {
		return "", false, err
	}
	if isLongQuery(v.outer.URL.RawQuery) {
		return "", false, errLongQuery
	}
	for _, other := range namesOf(form) {
		if other != name && sameButCase(other, name) {
			return "", false, errCase
		}
	}
	if form.MultipartForm != nil && form.MultipartForm.File[name] != nil {
		return "", false, errFile
	}
	if queryHas(v.outer.URL.RawQuery, func(other string) bool { return alike(other, name) }) {
		return "", false, errInQuery
	}
	values := form.PostForm[name]
	if len(values) == 0 {
		if _, inPath := v.view.Param(name); inPath {
			return "", false, errInPath
		}
		return "", false, nil
	}
	if slices.ContainsFunc(values, func(other string) bool { return other != values[0] }) {
		return "", false, door.ErrTwice
	}
	return values[0], true, nil
}

// formFor returns a request whose form is what handlers find in r's body. Without
// a body that is no value.
func (b *body) formFor(r *http.Request, limit int64) (*http.Request, error) {
	if isParsed(r) {
		return r, nil
	}
	if err := b.load(r, limit); err != nil {
		return nil, err
	}
	switch {
	case len(b.bytes) == 0:
		return &http.Request{}, nil
	case !saysForm(r.Header):
		return nil, errNoForm
	case r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch:
		return nil, errFormMethod // as (*http.Request).ParseForm has it
	}
	if b.formRead == nil {
		b.formRead, b.formErr = parsedForm(r.Header, b.bytes, limit)
	}
	if b.formErr != nil {
		return nil, errBrokenForm
	}
	return b.formRead, nil
}

// isParsed reports whether earlier middleware has parsed r's form, so that the
// body is gone and handlers find the same.
func isParsed(r *http.Request) bool {
	return r.MultipartForm != nil || len(r.PostForm) > 0 && !says(r.Header, multipart)
}

// saysForm reports whether a request says that its body is a form, and nothing
// else.
func saysForm(h http.Header) bool {
	lines := h["Content-Type"]
	if len(lines) != 1 {
		return false // readers differ about which of them counts
	}
	kind, _, err := mime.ParseMediaType(lines[0])
	return err == nil && (kind == urlencoded || kind == multipart)
}

// parsedForm parses a form by the parser that handlers use, for a method with
// which it does. Beside an error the request has what was found before that.
func parsedForm(h http.Header, form []byte, limit int64) (*http.Request, error) {
	r := &http.Request{Method: http.MethodPost, URL: new(url.URL), Header: h, Body: io.NopCloser(bytes.NewReader(form))}
	err := r.ParseForm()
	if multi := r.ParseMultipartForm(limit); !errors.Is(multi, http.ErrNotMultipart) {
		err = errors.Join(err, multi)
	}
	return r, err
}

// Cookie returns the value of the cookie called name, without quotes. Two cookies
// of that name are an error, unless their values are the same.
func (v *Visit) Cookie(name string) (string, bool, error) {
	cookies := v.outer.CookiesNamed(name)
	if len(cookies) == 0 {
		return "", false, nil
	}
	value := cookies[0].Value
	if slices.ContainsFunc(cookies, func(other *http.Cookie) bool { return other.Value != value }) {
		return "", false, door.ErrTwice
	}
	return value, true, nil
}
