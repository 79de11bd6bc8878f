package httpdoor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// respond runs handler behind a real server, its response held back up to max
// bytes, and finish with what was held back.
func respond(t *testing.T, max int, handler http.HandlerFunc, finish func(b *Buffer)) (*http.Response, string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		b := newBuffer(w, max)
		handler(b, r)
		finish(b)
	}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	server.Client().CloseIdleConnections()
	return response, string(body)
}

func TestHeldResponseIsSentAsItWas(t *testing.T) {
	response, body := respond(t, 100, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Inner", "2")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusTeapot) // too late
		w.Header().Set("X-Late", "3")
		_, _ = io.WriteString(w, "one ")
		_, _ = w.Write([]byte("two"))
		w.Header().Set("X-Sum", "4")
	}, (*Buffer).Send)
	if response.StatusCode != http.StatusCreated || body != "one two" {
		t.Errorf("response = %d %q, want 201 \"one two\"", response.StatusCode, body)
	}
	h := response.Header
	if h.Get("X-Outer") != "1" || h.Get("X-Inner") != "2" || h.Get("X-Late") != "" || response.Trailer.Get("X-Sum") != "4" {
		t.Errorf("header = %v, trailer = %v", h, response.Trailer)
	}
}

func TestHeldHeaderOfAnEmptyResponseIsSent(t *testing.T) {
	response, _ := respond(t, 100, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Inner", "2")
		w.Header().Del("X-Outer")
	}, func(b *Buffer) {
		if b.Written() {
			t.Error("an empty response counts as written")
		}
		b.Send()
	})
	if h := response.Header; h.Get("X-Inner") != "2" || h.Get("X-Outer") != "" {
		t.Errorf("header = %v", h)
	}
}

func TestHeldResponseCanBeReplaced(t *testing.T) {
	response, body := respond(t, 100, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "paid=1")
		w.Header().Set("Content-Length", "4")
		_, _ = io.WriteString(w, "paid")
		w.(http.Flusher).Flush()
	}, func(b *Buffer) {
		if !b.Held() || !b.Written() || b.Size() != 4 {
			t.Errorf("held %v, written %v, size %d; want true, true, 4", b.Held(), b.Written(), b.Size())
		}
		b.below.WriteHeader(http.StatusInternalServerError)
	})
	if response.StatusCode != http.StatusInternalServerError || body != "" || response.Header.Get("Set-Cookie") != "" || response.Header.Get("X-Outer") != "1" {
		t.Errorf("response = %d %q %v; want nothing of the handler's", response.StatusCode, body, response.Header)
	}
}

func TestResponseOverTheLimitIsNotHeldBack(t *testing.T) {
	const max = 10
	var held []bool
	write := func(w http.ResponseWriter, s string) {
		_, _ = io.WriteString(w, s)
		held = append(held, w.(*Buffer).Held())
	}
	response, body := respond(t, max, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusAccepted)
		write(w, strings.Repeat("a", max))
		write(w, "b")
		w.(http.Flusher).Flush()
		write(w, "c")
		w.Header().Set("X-Sum", "4")
	}, (*Buffer).Send)
	if want := strings.Repeat("a", max) + "bc"; response.StatusCode != http.StatusAccepted || body != want {
		t.Errorf("response = %d %q, want 202 %q", response.StatusCode, body, want)
	}
	if len(held) != 3 || !held[0] || held[1] || held[2] {
		t.Errorf("held back = %v, want true, false, false", held)
	}
	if got := response.Trailer.Get("X-Sum"); got != "4" {
		t.Errorf("trailer = %q, want 4", got)
	}
}
