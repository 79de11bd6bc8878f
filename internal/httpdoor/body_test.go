package httpdoor

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lockmw/kit/keyfunc"
)

// post returns a request with that body, which says that it is JSON, and whose
// length is not known if the reader does not tell.
func post(body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// visit returns the visit of r by a door with that limit for bodies.
func visit(r *http.Request, limit int64) *Visit {
	v := (&Door{bodyLimit: limit}).Visit(r)
	v.view = bare{}
	return &v
}

// bare is a view that has no parameters.
type bare struct{ keyfunc.Request }

func (bare) Param(string) (string, bool) { return "", false }

// unsized hides how long a reader's content is.
func unsized(r io.Reader) io.Reader { return struct{ io.Reader }{r} }

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestBodyIsReadAgainFromTheBeginning(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, size := range []int{1, 2, firstRead - 1, firstRead, firstRead + 1, 50_000, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(rng.Uint32())
		}
		for name, open := range map[string]func(io.Reader) io.Reader{
			"sized":    func(r io.Reader) io.Reader { return r },
			"unsized":  unsized,
			"halves":   iotest.HalfReader,
			"with EOF": iotest.DataErrReader,
		} {
			for _, limit := range []int64{1, firstRead, 64 << 10, int64(size), int64(size) + 1, 1 << 30} {
				r := post(open(bytes.NewReader(body)))
				length := r.ContentLength
				visit(r, limit).body.read(r, limit)
				if got := readAll(t, r.Body); got != string(body) {
					t.Fatalf("%s, %d bytes, limit %d: the handler reads %d other bytes", name, size, limit, len(got))
				}
				if r.ContentLength != length {
					t.Errorf("%s: ContentLength = %d, want %d", name, r.ContentLength, length)
				}
			}
		}
	}
}

func TestBodyOverTheLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		body  io.Reader
		limit int64
		want  bool
	}{
		"sized, at the limit":   {strings.NewReader(`{"id":1}`), 8, false},
		"sized, over":           {strings.NewReader(`{"id":1} `), 8, true},
		"unsized, at the limit": {unsized(strings.NewReader(`{"id":1}`)), 8, false},
		"unsized, over":         {unsized(strings.NewReader(`{"id":1} `)), 8, true},
	} {
		r := post(tc.body)
		_, ok, err := visit(r, tc.limit).Body("id")
		var over *http.MaxBytesError
		if got := errors.As(err, &over); got != tc.want || ok == tc.want {
			t.Errorf("%s: ok %v, error %v; want it over the limit: %v", name, ok, err, tc.want)
		}
	}
}

// unreadable fails the test when it is read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

func TestBodyThatSaysItIsTooLongIsNotRead(t *testing.T) {
	r := post(unreadable{t})
	r.ContentLength = 9
	v := visit(r, 8)
	if _, _, err := v.Body("id"); err == nil {
		t.Error("no error")
	}
	v.body.readAhead(r, 8)
}

// A roomy reader notes how much room it was given before anything had come.
type roomy struct{ room int }

func (r *roomy) Read(p []byte) (int, error) {
	r.room = len(p)
	return 0, io.ErrUnexpectedEOF
}

// TestLengthAloneTakesLittleMemory: a client can say at no cost that its body is
// long, over many connections.
func TestLengthAloneTakesLittleMemory(t *testing.T) {
	for length, want := range map[int64]int{-1: firstRead, 0: 1, 100: 101, firstRead: firstRead, 64 << 10: firstRead, 1 << 30: firstRead} {
		var r roomy
		if _, err := readUpTo(&r, length, 1<<30); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("length %d: %v", length, err)
		}
		if r.room > want {
			t.Errorf("for a length of %d there is room for %d bytes before anything has come, want %d", length, r.room, want)
		}
	}
}

func TestErrorOfABodyComesAgain(t *testing.T) {
	broken := errors.New("connection reset")
	r := post(io.MultiReader(strings.NewReader(`{"id"`), iotest.ErrReader(broken)))
	v := visit(r, 100)
	if _, _, err := v.Body("id"); !errors.Is(err, broken) {
		t.Errorf("error = %v, want %v", err, broken)
	}
	got, err := io.ReadAll(r.Body)
	if string(got) != `{"id"` || !errors.Is(err, broken) {
		t.Errorf("the handler reads %q, %v; want the same as the key", got, err)
	}
}

func TestOuterLimitOfABodyCounts(t *testing.T) {
	r := post(unsized(strings.NewReader(`{"id":1}`)))
	r.Body = http.MaxBytesReader(nil, r.Body, 4)
	_, _, err := visit(r, 100).Body("id")
	var over *http.MaxBytesError
	if !errors.As(err, &over) || over.Limit != 4 {
		t.Errorf("error = %v, want that of the outer limit", err)
	}
}

func TestNoBodyHasNoFields(t *testing.T) {
	for _, body := range []io.Reader{nil, http.NoBody, strings.NewReader(""), unsized(strings.NewReader(""))} {
		text, ok, err := visit(post(body), 100).Body("id")
		if text != "" || ok || err != nil {
			t.Errorf("%T: field = %q, %v, %v; want nothing", body, text, ok, err)
		}
	}
}

func TestBodyThatMiddlewareHasReadIsUsed(t *testing.T) {
	v := visit(post(unreadable{t}), 8)
	v.UseBody([]byte(`{"id":7}`))
	if text, ok, err := v.Body("id"); text != "7" || !ok || err != nil {
		t.Errorf("field = %q, %v, %v; want 7", text, ok, err)
	}
	v.UseBody([]byte(`{"id":78}`))
	var over *http.MaxBytesError
	if _, _, err := v.Body("id"); !errors.As(err, &over) {
		t.Errorf("error = %v, want that of the limit", err)
	}
}

// endless gives JSON that does not end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '['
	}
	return len(b), nil
}

func TestEndlessBodyCostsLittleMoreThanTheLimit(t *testing.T) {
	const limit, times = 64 << 10, 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if _, _, err := visit(post(endless{}), limit).Body("id"); err == nil {
			t.Fatal("no error")
		}
	}
	runtime.ReadMemStats(&after)
	if got, most := (after.TotalAlloc-before.TotalAlloc)/times, uint64(limit+64<<10); got > most {
		t.Errorf("a body costs %d bytes, want at most %d", got, most)
	}
}
