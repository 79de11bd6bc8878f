package httpdoor

import (
	"bytes"
	"errors"
	"io"
	multiform "mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// visitOf is the visit of a request with that body.
func visitOf(method, target, kind, body string) *Visit {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	v := (&Door{bodyLimit: 1000}).Visit(r)
	return &v
}

// parts writes a multipart form of two fields, of which one is a file.
func parts(t *testing.T, boundary, order, file, content string) (kind, body string) {
	t.Helper()
	var text bytes.Buffer
	w := multiform.NewWriter(&text)
	_ = w.SetBoundary(boundary)
	_ = w.WriteField("order", order)
	part, err := w.CreateFormFile("scan", file)
	if err == nil {
		_, err = io.WriteString(part, content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), text.String()
}

func TestFingerprintTellsRequestsApart(t *testing.T) {
	const json = "application/json"
	kind, body := parts(t, "one", "7", "a.pdf", "x")
	seen := make(map[string]string)
	for name, v := range map[string]*Visit{
		"usual":                visitOf("POST", "/pay?a=1", json, `{}`),
		"method":               visitOf("PUT", "/pay?a=1", json, `{}`),
		"path":                 visitOf("POST", "/pays?a=1", json, `{}`),
		"escaped path":         visitOf("POST", "/p%2Fay?a=1", json, `{}`),
		"path, not escaped":    visitOf("POST", "/p/ay?a=1", json, `{}`),
		"query":                visitOf("POST", "/pay?a=2", json, `{}`),
		"query in the path":    visitOf("POST", "/pay%3Fa=1", json, `{}`),
		"type":                 visitOf("POST", "/pay?a=1", "text/plain", `{}`),
		"body":                 visitOf("POST", "/pay?a=1", json, `{ }`),
		"no body":              visitOf("POST", "/pay?a=1", json, ""),
		"form":                 visitOf("POST", "/pay?a=1", kind, body),
		"broken form":          visitOf("POST", "/pay?a=1", kind, body[:len(body)-10]),
		"form without its end": visitOf("POST", "/pay?a=1", multipart, body),
	} {
		sum, err := v.fingerprint()
		if err != nil || len(sum) == 0 {
			t.Errorf("%s: %q, %v", name, sum, err)
		}
		if other, twice := seen[string(sum)]; twice {
			t.Errorf("%q and %q have one fingerprint", name, other)
		}
		seen[string(sum)] = name
		if again, _ := io.ReadAll(v.outer.Body); len(again) == 0 && name != "no body" {
			t.Errorf("%s: the handler gets no body", name)
		}
	}
}

func TestFingerprintOfAFormIsThatOfItsParts(t *testing.T) {
	sumOf := func(parsed bool, boundary, order, file, content string) string {
		kind, body := parts(t, boundary, order, file, content)
		v := visitOf("POST", "/", kind, body)
		if parsed {
			if err := v.outer.ParseMultipartForm(100); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := v.fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return string(sum)
	}
	for _, parsed := range []bool{false, true} { // by earlier middleware
		first := sumOf(parsed, "one", "7", "a.pdf", "x")
		if sumOf(parsed, "two", "7", "a.pdf", "x") != first {
			t.Errorf("parsed %v: another boundary is another fingerprint", parsed)
		}
		for _, other := range []string{
			sumOf(parsed, "one", "8", "a.pdf", "x"), sumOf(parsed, "one", "7", "b.pdf", "x"), sumOf(parsed, "one", "7", "a.pdf", "y"),
		} {
			if other == first {
				t.Errorf("parsed %v: another form has the same fingerprint", parsed)
			}
		}
	}
}

func TestBodyThatCannotBeReadHasNoFingerprint(t *testing.T) {
	long := visitOf("POST", "/", "", strings.Repeat("x", 1001))
	if _, err := long.fingerprint(); !isTooLarge(err) {
		t.Errorf("a long body: %v", err)
	}
	long = visitOf("POST", "/", "", strings.Repeat("x", 1001))
	long.outer.ContentLength = -1
	FingerprintBy(long, func(*http.Request) ([]byte, error) { return nil, nil }, long.outer)
	if _, err := long.fingerprint(); !isTooLarge(err) {
		t.Errorf("a long body, with a function: %v", err)
	}
	gone := visitOf("POST", "/", "", "x")
	_, _ = io.ReadAll(gone.outer.Body)
	if _, err := gone.fingerprint(); !errors.Is(err, keyfunc.ErrMisuse) {
		t.Errorf("a body that is gone: %v", err)
	}
	broken := visitOf("POST", "/", "", "")
	broken.outer.Body = io.NopCloser(failing{io.ErrUnexpectedEOF})
	broken.outer.ContentLength = -1
	if _, err := broken.fingerprint(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that is cut off: %v", err)
	}
}

func isTooLarge(err error) bool {
	_, is := errors.AsType[*http.MaxBytesError](err)
	return is
}
