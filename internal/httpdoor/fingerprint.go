package httpdoor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	multiform "mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
)

// FingerprintBy has the fingerprint of v's request made by a function of the door's framework, which gets r: the request, or what
// the framework wraps around it. The function may read the body, as that of NativeKey. If it is nil the fingerprint
// is of the request.
func FingerprintBy[R any](v *Visit, fingerprint func(R) ([]byte, error), r R) {
	if fingerprint != nil {
		v.own = func() ([]byte, error) { return fingerprint(r) }
	}
}

// fingerprint returns what tells two requests apart that have the same key. It reads the body, which must not be over the limit: nobody
// could say otherwise whether a request is the same as another.
func (v *Visit) fingerprint() ([]byte, error) {
	if err := v.body.load(v.outer, v.door.bodyLimit); err != nil {
		return nil, err
	}
	if v.own != nil {
		defer v.lend()()
		sum, err := v.own()
		if err == nil {
			err = v.refused // it has read a body that cannot be read
		}
		return sum, err
	}
	return v.sumOfRequest()
}

// errBodyGone refuses a request whose body earlier middleware has taken away.
var errBodyGone = fmt.Errorf("%w: earlier middleware has read the request's body, so nobody can tell whether two requests are the same: "+
	"let it put the body back, put it behind Idempotent, or say WithFingerprint", keyfunc.ErrMisuse)

// sumOfRequest is a hash of the method, the path, the query, the Content-Type without its parameters, and the body.
func (v *Visit) sumOfRequest() ([]byte, error) {
	r := v.outer
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	all := door.NewDigest(r.Method, pathSent(r), r.URL.RawQuery, strings.ToLower(strings.TrimSpace(kind)))
	switch body := v.body.bytes; {
	case len(body) == 0 && isParsed(r):
		values, files := formInFront(r)
		if sizeOf(values, files) > v.door.bodyLimit {
			return nil, &http.MaxBytesError{Limit: v.door.bodyLimit}
		}
		if err := addForm(all, values, files); err != nil {
			return nil, err
		}
	case int64(len(body)) < r.ContentLength: // a longer one was put there, as by middleware that decompresses
		return nil, errBodyGone
	default:
		parts, ok := partsOf(r.Header, body)
		if !ok {
			parts = []string{string(body)}
		}
		for _, part := range parts {
			all.Add(part)
		}
	}
	return all.Sum(), nil
}

// partsOf returns what is in a multipart form, without the boundary: a client that sends its request again takes another one. It is
// false for other bodies, and for a form that is broken.
func partsOf(h http.Header, body []byte) (parts []string, ok bool) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != multipart {
		return nil, false
	}
	form := multiform.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts, true
		}
		if err != nil {
			return nil, false
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, false
		}
		parts = append(parts, headerSum(part.Header), string(content))
	}
}

// headerSum is a hash of the header of a part: its name, the name of its file, its type.
func headerSum(h textproto.MIMEHeader) string {
	all := door.NewDigest()
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all.Add(name)
		all.Add(string(door.NewDigest(h[name]...).Sum()))
	}
	return string(all.Sum())
}

// formInFront returns a form that earlier middleware has parsed, which has taken the body away.
func formInFront(r *http.Request) (values map[string][]string, files map[string][]*multiform.FileHeader) {
	if r.MultipartForm == nil {
		return r.PostForm, nil
	}
	return r.MultipartForm.Value, r.MultipartForm.File
}

// sizeOf is how large what is in a form is.
func sizeOf(values map[string][]string, files map[string][]*multiform.FileHeader) (size int64) {
	for name, all := range values {
		for _, value := range all {
			size += int64(len(name) + len(value))
		}
	}
	for _, all := range files {
		for _, file := range all {
			size += file.Size
		}
	}
	return size
}

// addForm adds what is in a form.
func addForm(all door.Digest, values map[string][]string, files map[string][]*multiform.FileHeader) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all.Add(name)
		all.Add(string(door.NewDigest(values[name]...).Sum()))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, file := range files[name] {
			content, err := contentOf(file)
			if err != nil {
				return err
			}
			all.Add(name)
			all.Add(headerSum(file.Header))
			all.Add(content)
		}
	}
	return nil
}

func contentOf(file *multiform.FileHeader) (string, error) {
	f, err := file.Open()
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	return string(content), err
}
