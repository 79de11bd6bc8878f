package httpdoor

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// A function that does not look at the error would make a key of half a body.
func TestNativeKeyOfABodyThatBreaksOffIsRefused(t *testing.T) {
	broken := errors.New("broken off")
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)))
	v := visit(r, 100)
	for range 2 { // the second as well
		v.refused = nil
		key, err := NativeKey(v, "testdoor.Key", func(r *http.Request) (string, error) {
			read, _ := io.ReadAll(r.Body)
			return string(read), nil
		}, r)
		if key != "half" || err != nil || !errors.Is(v.refused, broken) {
			t.Errorf("key = %q, %v, and the request is refused with %v", key, err, v.refused)
		}
	}
	if read, err := io.ReadAll(r.Body); string(read) != "half" || !errors.Is(err, broken) {
		t.Errorf("then the body is %q, %v", read, err)
	}
}

func TestNativeKeyThatDoesNotReadLeavesTheBodyAlone(t *testing.T) {
	for _, sent := range []io.ReadCloser{nil, http.NoBody, io.NopCloser(iotest.ErrReader(errors.New("it is read")))} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Body = sent
		v := visit(r, 100)
		key, err := NativeKey(v, "testdoor.Key", func(r *http.Request) (string, error) { return r.Method, nil }, r)
		if key != "POST" || err != nil || v.refused != nil || r.Body != sent || v.body.state != unread {
			t.Errorf("%T: key %q, %v, refused %v, body %T", sent, key, err, v.refused, r.Body)
		}
	}
}

// net/http remembers in the request how a multipart form was read, and refuses to read it in another way.
func TestTheHandlerReadsTheFormInItsOwnWay(t *testing.T) {
	ways := map[string]func(r *http.Request) (string, error){
		"FormValue": func(r *http.Request) (string, error) { return r.FormValue("id"), nil },
		"MultipartReader": func(r *http.Request) (string, error) {
			parts, err := r.MultipartReader()
			if err != nil {
				return "", err
			}
			part, err := parts.NextPart()
			if err != nil {
				return "", err
			}
			text, err := io.ReadAll(part)
			return string(text), err
		},
	}
	for keys, key := range ways {
		for handlers, handler := range ways {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\n42\r\n--b--\r\n"))
			r.Header.Set("Content-Type", multipart+"; boundary=b")
			if got, err := NativeKey(visit(r, 1000), "Key", key, r); got != "42" || err != nil {
				t.Errorf("key by %s = %q, %v", keys, got, err)
			}
			if got, err := handler(r); got != "42" || err != nil {
				t.Errorf("behind a key by %s the handler finds by %s %q, %v", keys, handlers, got, err)
			}
		}
	}
}
