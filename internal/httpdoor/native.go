package httpdoor

import (
	"io"
	multiform "mime/multipart"
	"net/http"
	"net/url"

	"github.com/lockmw/kit/internal/door"
)

// NativeKey asks a key function of the door's framework, which is called name, about r: the request of v, or
// what the framework wraps around it. The function may read the body, up to the limit, and what reads it
// next gets it from the beginning. One that reads beyond the limit, or a body that cannot be read, has Enter
// refuse the request, whatever the function makes of the error.
func NativeKey[R any](v *Visit, name string, key func(R) (string, error), r R) (string, error) {
	defer v.lend()()
	s, err := key(r)
	return door.NativeKey(name, s, err)
}

// lend lends the body of the request to a function, and returns what has the handler find the request as it came.
func (v *Visit) lend() (putBack func()) {
	body := v.outer.Body
	if body == nil || body == http.NoBody {
		return func() {}
	}
	lent := &lentBody{visit: v, below: body, form: formOf(v.outer)}
	v.outer.Body = lent
	return lent.putBack
}

// A lentBody is the body of a request while a function of the program is asked about that. It reads what is read
// ahead of the handler, and takes nothing of it away.
type lentBody struct {
	visit *Visit
	below io.ReadCloser // the request's
	at    int
	form  forms // of the request as it came
}

// forms are what a request remembers of how its body was read.
type forms struct {
	all, post url.Values
	multi     *multiform.Form
}

func formOf(r *http.Request) forms { return forms{r.Form, r.PostForm, r.MultipartForm} }

// Read reads ahead when it is called first. A function that does not read leaves the body where it is.
func (l *lentBody) Read(p []byte) (int, error) {
	b, limit := &l.visit.body, l.visit.door.bodyLimit
	if b.state == unread {
		own := l.visit.outer.Body // the function may have put another in its place
		l.visit.outer.Body = l.below
		b.read(l.visit.outer, limit)
		l.below, l.visit.outer.Body = l.visit.outer.Body, own
	}
	if left := b.bytes[l.at:min(int64(len(b.bytes)), limit)]; len(left) > 0 {
		n := copy(p, left)
		l.at += n
		return n, nil
	}
	switch b.state {
	case tooLong:
		err := &http.MaxBytesError{Limit: limit}
		l.visit.Refuse(err)
		return 0, err
	case failed:
		l.visit.Refuse(b.err)
		return 0, b.err
	case unread, whole:
	}
	return 0, io.EOF
}

// Close leaves the body to the handler.
func (l *lentBody) Close() error { return nil }

// putBack has the handler find the request as it came: a form that net/http has read in one way it does not
// read in another, as by MultipartReader.
func (l *lentBody) putBack() {
	r := l.visit.outer
	r.Body = l.below
	if read := r.MultipartForm; read != nil && read != l.form.multi {
		_ = read.RemoveAll() // files on disk, where the limit for bodies is so large
	}
	r.Form, r.PostForm, r.MultipartForm = l.form.all, l.form.post, l.form.multi
}
