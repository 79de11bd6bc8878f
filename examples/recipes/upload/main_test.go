package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// patient is for tests that are about something else.
var patient = limits{longest: time.Minute, silence: time.Minute, largest: 1 << 20}

// start returns the locks of a service, where to put a file, and the folder with its files.
func start(t *testing.T, most limits) (locks *lockmw.Locker, url, files string) {
	t.Helper()
	locks, files = locktest.New(t), t.TempDir()
	return locks, serve(t, locks, files, most), files
}

// serve starts one more service with these locks and files.
func serve(t *testing.T, locks *lockmw.Locker, files string, most limits) (url string) {
	t.Helper()
	dir, err := os.OpenRoot(files)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(routes(locks, dir, most))
	t.Cleanup(func() {
		server.Close()
		_ = dir.Close()
	})
	return server.URL + "/files/a.bin"
}

func put(t *testing.T, url string, body io.Reader) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0 // the connection was closed
	}
	_ = response.Body.Close()
	return response.StatusCode
}

var file = bytes.Repeat([]byte("0123456789abcdef"), 8<<10) // 128 KiB: more than is read before the lock is taken

// unsized hides how long a body is, so that it is sent in chunks.
func unsized(body []byte) io.Reader { return struct{ io.Reader }{bytes.NewReader(body)} }

func TestAFileIsStored(t *testing.T) {
	_, url, files := start(t, patient)
	if status := put(t, url, bytes.NewReader(file)); status != http.StatusCreated {
		t.Fatal(status)
	}
	if got, err := os.ReadFile(filepath.Join(files, "a.bin")); err != nil || !bytes.Equal(got, file) {
		t.Errorf("%d bytes are stored, want %d; %v", len(got), len(file), err)
	}
}

func TestASlowClientDoesNotKeepTheFile(t *testing.T) {
	for name, most := range map[string]limits{
		"silent":   {longest: time.Minute, silence: 500 * time.Millisecond, largest: 1 << 20}, // the first half has to come in time
		"too long": {longest: 500 * time.Millisecond, silence: time.Minute, largest: 1 << 20},
	} {
		locks, url, files := start(t, most)
		body, send := io.Pipe()
		done := make(chan int, 1)
		go func() { done <- put(t, url, body) }()
		_, err := send.Write(file) // and no end of the file; on a busy machine the answer may come before all is sent
		if status := <-done; status != http.StatusRequestTimeout {
			t.Errorf("%s: half a file gets %d, %v", name, status, err)
		}
		_ = send.CloseWithError(io.ErrUnexpectedEOF)
		nothingIsLeft(t, name, files)
		if status := put(t, serve(t, locks, files, patient), bytes.NewReader(file)); status != http.StatusCreated {
			t.Errorf("%s: the next upload gets %d", name, status)
		}
	}
}

func nothingIsLeft(t *testing.T, name, files string) {
	t.Helper()
	if left, err := os.ReadDir(files); err != nil || len(left) != 0 {
		t.Errorf("%s: %v is left, %v", name, left, err)
	}
}

func TestAFileOverTheLimitIsTooLarge(t *testing.T) {
	for name, tc := range map[string]struct {
		largest int
		body    io.Reader
		want    int
	}{
		"at the limit":            {len(file), bytes.NewReader(file), http.StatusCreated},
		"at the limit, in chunks": {len(file), unsized(file), http.StatusCreated},
		"over it":                 {len(file) - 1, bytes.NewReader(file), http.StatusRequestEntityTooLarge},
		"over it, in chunks":      {len(file) - 1, unsized(file), http.StatusRequestEntityTooLarge},
		"over it before the lock": {10, unsized(file[:20]), http.StatusRequestEntityTooLarge},
	} {
		_, url, files := start(t, limits{longest: time.Minute, silence: time.Minute, largest: int64(tc.largest)})
		if status := put(t, url, tc.body); status != tc.want {
			t.Errorf("%s: status = %d, want %d", name, status, tc.want)
		}
		if tc.want != http.StatusCreated {
			nothingIsLeft(t, name, files)
		}
	}
}

// A body that says that it is too long is neither read nor locked for.
func TestAFileThatSaysItIsTooLargeIsNotRead(t *testing.T) {
	locks, _, files := start(t, patient)
	_, lease, err := locks.Acquire(t.Context(), "a.bin", lockmw.Policy{Prefix: "file:"}) // whoever asks for it gets 409
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(t.Context()) }()
	dir, err := os.OpenRoot(files)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	r := httptest.NewRequest(http.MethodPut, "/files/a.bin", iotest.ErrReader(errors.New("it is read")))
	r.ContentLength = patient.largest + 1
	w := httptest.NewRecorder()
	routes(locks, dir, patient).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status = %d", w.Code)
	}
}

// A client cannot help it when its file is not stored.
func TestAFailedStoreIsOurFault(t *testing.T) {
	_, url, files := start(t, patient)
	if err := os.Mkdir(filepath.Join(files, "a.bin"), 0o700); err != nil { // nothing can be put in its place
		t.Fatal(err)
	}
	if status := put(t, url, bytes.NewReader(file)); status != http.StatusInternalServerError {
		t.Errorf("at the end: status = %d", status)
	}
	if err := os.RemoveAll(files); err != nil {
		t.Fatal(err)
	}
	if status := put(t, url, bytes.NewReader(file)); status != http.StatusInternalServerError {
		t.Errorf("at the beginning: status = %d", status)
	}
}

// A client that ends before its file does is not told that it is stored. Whether the body ends or the
// context does is seen first, is chance.
func TestHalfAFileIsNotStored(t *testing.T) {
	_, url, files := start(t, patient)
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/files/a.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /files/a.bin HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(file)+1)
	if _, err := conn.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("status = %d", response.StatusCode)
	}
	nothingIsLeft(t, "half a file", files)
}

func TestASecondUploadIsRefused(t *testing.T) {
	locks, url, _ := start(t, patient)
	body, send := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- put(t, url, body) }()
	if _, err := send.Write(file); err != nil {
		t.Fatal(err)
	}
	for len(locktest.Keys(t, locks)) == 0 { // until the first one has its lock
		if len(done) != 0 {
			t.Fatalf("the first upload gets %d", <-done)
		}
	}
	if status := put(t, url, bytes.NewReader(file)); status != http.StatusConflict {
		t.Errorf("the second upload gets %d", status)
	}
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	if status := <-done; status != http.StatusCreated {
		t.Errorf("the first upload gets %d", status)
	}
}

// Whoever finds another name for a file would write it under another lock, beside its owner.
func TestAFileHasOneName(t *testing.T) {
	_, url, files := start(t, patient)
	for name, want := range map[string]int{
		"a.bin": http.StatusCreated, "a.part.bin": http.StatusCreated, "%61.bin": http.StatusCreated,
		".%2Fa.bin": http.StatusBadRequest, "b%2F..%2Fa.bin": http.StatusBadRequest, "a.bin%2F": http.StatusBadRequest, "a.bin.part": http.StatusBadRequest,
	} {
		if err := os.Mkdir(filepath.Join(files, "b"), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		if status := put(t, strings.TrimSuffix(url, "a.bin")+name, bytes.NewReader(file)); status != want {
			t.Errorf("%s: status = %d, want %d", name, status, want)
		}
	}
}
