package main

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// edit opens a stream. next returns its next event, or "" at its end.
func edit(ctx context.Context, t *testing.T, url string) (status int, next func() string) {
	t.Helper()
	return editBy(ctx, t, http.DefaultClient, url)
}

func editBy(ctx context.Context, t *testing.T, client *http.Client, url string) (status int, next func() string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/documents/7/edit", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	return response.StatusCode, func() string {
		for lines.Scan() {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				return event
			}
		}
		return ""
	}
}

func start(t *testing.T, longest, beat time.Duration) (*lockmw.Locker, string) {
	t.Helper()
	locks := locktest.New(t)
	server := httptest.NewServer(routes(locks, longest, beat))
	t.Cleanup(server.Close)
	return locks, server.URL
}

func TestOnePersonEdits(t *testing.T) {
	_, url := start(t, time.Minute, time.Second) // one beat is waited for; a busy machine may need a moment for each write
	ctx, leave := context.WithCancel(t.Context())
	status, next := edit(ctx, t, url)
	if first, second := next(), next(); status != http.StatusOK || first != "yours" || second != "beat" {
		t.Fatalf("%d, %s, %s", status, first, second)
	}
	if status, _ := edit(t.Context(), t, url); status != http.StatusConflict {
		t.Errorf("a second one gets %d", status)
	}
	leave()
	for {
		switch status, _ := edit(t.Context(), t, url); status {
		case http.StatusOK:
			return
		case http.StatusConflict: // the server has not noticed yet that the first one has left
		default:
			t.Fatal(status)
		}
	}
}

func TestTheStreamEndsWithTheLock(t *testing.T) {
	_, url := start(t, 200*time.Millisecond, time.Minute)
	if _, next := edit(t.Context(), t, url); next() != "yours" || next() != "over" || next() != "" {
		t.Error("MaxHold has not ended the stream")
	}
	locks, url := start(t, time.Minute, time.Minute)
	_, next := edit(t.Context(), t, url)
	next()
	locktest.Lose(t, locks, "document:7")
	if event := next(); event != "lost" {
		t.Errorf("the client is told %q", event)
	}
}

// Over HTTP/2 a write deadline that passes while nothing is written ends the stream, over HTTP/1 it does not.
func TestAStreamGoesOnOverHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(routes(locktest.New(t), time.Minute, 300*time.Millisecond))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	_, next := editBy(ctx, t, server.Client(), server.URL)
	for i, want := range []string{"yours", "beat", "beat", "beat"} {
		if got := next(); got != want {
			t.Fatalf("event %d is %q, want %q", i, got, want)
		}
	}
}

// A pattern of GET is one of HEAD, too. Whoever asks so gets no events, and its connection lives on: it would have the
// document until MaxHold is over.
func TestWhoAsksForTheHeaderDoesNotEdit(t *testing.T) {
	locks, url := start(t, time.Minute, time.Minute)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, url+"/documents/7/edit", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if keys := locktest.Keys(t, locks); response.StatusCode != http.StatusMethodNotAllowed || len(keys) != 0 {
		t.Errorf("HEAD gets %d and holds %q", response.StatusCode, keys)
	}
}
