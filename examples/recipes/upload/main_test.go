package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// start returns the locks of a service, where to put a file, and the folder with its files.
func start(t *testing.T, longest, silence time.Duration) (locks *lockmw.Locker, url, files string) {
	t.Helper()
	locks, files = locktest.New(t), t.TempDir()
	dir, err := os.OpenRoot(files)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(routes(locks, dir, longest, silence))
	t.Cleanup(func() {
		server.Close()
		_ = dir.Close()
	})
	return locks, server.URL + "/files/a.bin", files
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

func TestAFileIsStored(t *testing.T) {
	_, url, files := start(t, time.Minute, time.Minute)
	if status := put(t, url, bytes.NewReader(file)); status != http.StatusCreated {
		t.Fatal(status)
	}
	if got, err := os.ReadFile(filepath.Join(files, "a.bin")); err != nil || !bytes.Equal(got, file) {
		t.Errorf("%d bytes are stored, want %d; %v", len(got), len(file), err)
	}
}

func TestASlowClientDoesNotKeepTheFile(t *testing.T) {
	for name, times := range map[string][2]time.Duration{
		"silent":   {time.Minute, 100 * time.Millisecond},
		"too long": {100 * time.Millisecond, time.Minute},
	} {
		_, url, files := start(t, times[0], times[1])
		body, send := io.Pipe()
		done := make(chan int, 1)
		go func() { done <- put(t, url, body) }()
		if _, err := send.Write(file); err != nil { // and no end of the file
			t.Fatal(err)
		}
		if status := <-done; status == http.StatusCreated {
			t.Errorf("%s: half a file was stored", name)
		}
		_ = send.CloseWithError(io.ErrUnexpectedEOF)
		if left, err := os.ReadDir(files); err != nil || len(left) != 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
		if status := put(t, url, bytes.NewReader(file)); status != http.StatusCreated {
			t.Errorf("%s: the next upload gets %d", name, status)
		}
	}
}

func TestASecondUploadIsRefused(t *testing.T) {
	locks, url, _ := start(t, time.Minute, time.Minute)
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
