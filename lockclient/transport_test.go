package lockclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/lockclient"
)

// answers is a RoundTripper that gives one answer after the other.
type answers struct {
	all    []func(r *http.Request) (*http.Response, error)
	bodies []string // that were sent
	closed int      // bodies of answers
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		body = string(text)
	}
	a.bodies = append(a.bodies, body)
	answer := a.all[0]
	if len(a.all) > 1 {
		a.all = a.all[1:]
	}
	return answer(r)
}

// answer is one, whose body says when it is closed.
func (a *answers) answer(status int, kind, retryAfter string, body io.Reader) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {kind}}
		if retryAfter != "" {
			header.Set("Retry-After", retryAfter)
		}
		return &http.Response{StatusCode: status, Header: header, Body: closing{body, func() { a.closed++ }}, Request: r}, nil
	}
}

type closing struct {
	io.Reader
	close func()
}

func (c closing) Close() error {
	c.close()
	return nil
}

const (
	problemType = "application/problem+json"
	busy        = `{"title":"Conflict","status":409,"detail":"…","code":"LOCK_BUSY"}`
)

func TestOnlyARefusalOfOursIsAskedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		status            int
		kind, after, body string
		again             bool
	}{
		"ours":                        {409, problemType, "1", busy, true},
		"its own milliseconds":        {409, problemType, "1", strings.Replace(busy, "{", `{"retry_after_ms":9200000000000000000,`, 1), true},
		"with a charset":              {409, problemType + "; charset=utf-8", "1", busy, true},
		"a date":                      {409, problemType, "Sat, 01 Jan 2000 00:00:02 GMT", busy, true},
		"a date far away":             {409, problemType, "Fri, 31 Dec 9999 23:59:59 GMT", busy, false},
		"a date that is over":         {409, problemType, "Sat, 01 Jan 2000 00:00:00 GMT", busy, false},
		"no Retry-After":              {409, problemType, "", busy, false},
		"one that is none":            {409, problemType, "soon", busy, false},
		"one below zero":              {409, problemType, "-1", busy, false},
		"another type":                {409, "application/json", "1", busy, false},
		"a proxy":                     {503, "text/html", "1", "<h1>Service Unavailable</h1>", false},
		"a proxy with a problem":      {503, problemType, "1", `{"title":"Service Unavailable","status":503}`, false},
		"another service's code":      {409, problemType, "1", `{"code":"TOO_BUSY"}`, false},
		"a code that is no text":      {409, problemType, "1", `{"code":7}`, false},
		"no JSON":                     {409, problemType, "1", "LOCK_BUSY", false},
		"a cool-down":                 {409, problemType, "1", strings.Replace(busy, "LOCK_BUSY", "LOCK_COOLDOWN", 1), false},
		"what a handler says is fine": {200, problemType, "1", busy, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it begins at 2000-01-01 00:00:00 UTC
				var a answers
				a.all = append(a.all, a.answer(tc.status, tc.kind, tc.after, strings.NewReader(tc.body)), a.answer(201, "text/plain", "", strings.NewReader("done")))
				client := http.Client{Transport: &lockclient.Transport{Base: &a}}
				answer, err := client.Post("http://shop.test/orders", "text/plain", strings.NewReader("an order"))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				if err != nil {
					t.Error(err)
				}
				_ = answer.Body.Close()
				want, status, tries := tc.body, tc.status, 1
				if tc.again {
					want, status, tries = "done", 201, 2
				}
				if answer.StatusCode != status || string(text) != want {
					t.Errorf("%d %s, want %d %s", answer.StatusCode, text, status, want)
				}
				if len(a.bodies) != tries || a.bodies[tries-1] != "an order" || a.closed != tries {
					t.Errorf("sent were %q, and %d answers were closed; want %d", a.bodies, a.closed, tries)
				}
			})
		})
	}
}

func TestARequestThatCannotBeSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		a.all = append(a.all, a.answer(409, problemType, "1", strings.NewReader(busy)))
		client := http.Client{Transport: &lockclient.Transport{Base: &a}}
		answer, err := client.Post("http://shop.test/orders", "text/plain", iotest.OneByteReader(strings.NewReader("an order")))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusConflict || len(a.bodies) != 1 {
			t.Errorf("%d, and sent were %q", answer.StatusCode, a.bodies)
		}

		a = answers{}
		a.all = append(a.all, a.answer(409, problemType, "1", strings.NewReader(busy)))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop.test/orders", strings.NewReader("an order"))
		if err != nil {
			t.Fatal(err)
		}
		gone := errors.New("the file is gone")
		r.GetBody = func() (io.ReadCloser, error) { return nil, gone }
		if answer, err := client.Do(r); !errors.Is(err, gone) {
			t.Errorf("%v, %v", answer, err)
		}
		if len(a.bodies) != 1 || a.closed != 1 {
			t.Errorf("sent were %q, and %d answers were closed", a.bodies, a.closed)
		}
	})
}

func TestErrorsAreTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		var a answers
		a.all = append(a.all, a.answer(409, problemType, "1", strings.NewReader(busy)), func(*http.Request) (*http.Response, error) { return nil, refused })
		client := http.Client{Transport: &lockclient.Transport{Base: &a}}
		if answer, err := client.Get("http://shop.test/orders"); !errors.Is(err, refused) {
			t.Errorf("%v, %v", answer, err)
		}

		a = answers{}
		a.all = append(a.all, a.answer(409, problemType, "10", strings.NewReader(busy)))
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.test/orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		if answer, err := client.Do(r); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

// What is too long or breaks off is no refusal of the middlewares, and the caller reads what came.
func TestAnAnswerThatIsNoRefusalIsPassedOn(t *testing.T) {
	long := `{"code":"LOCK_BUSY","detail":"` + strings.Repeat("a", 100<<10) + `"}`
	broken := errors.New("connection reset")
	for name, body := range map[string]io.Reader{
		"too long":   strings.NewReader(long),
		"breaks off": io.MultiReader(strings.NewReader(long[:100]), iotest.ErrReader(broken)),
	} {
		t.Run(name, func(t *testing.T) {
			var a answers
			a.all = append(a.all, a.answer(409, problemType, "1", body))
			client := http.Client{Transport: &lockclient.Transport{Base: &a}}
			answer, err := client.Get("http://shop.test/orders")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if a.closed != 1 || len(a.bodies) != 1 {
				t.Errorf("%d tries, and %d answers were closed", len(a.bodies), a.closed)
			}
			if name == "breaks off" {
				if !errors.Is(err, broken) || string(text) != long[:100] {
					t.Errorf("%q, %v", text, err)
				}
			} else if err != nil || string(text) != long {
				t.Errorf("%d bytes of %d, %v", len(text), len(long), err)
			}
		})
	}
}

// closes is a RoundTripper with idle connections.
type closes struct {
	http.RoundTripper
	closed int
}

func (c *closes) CloseIdleConnections() { c.closed++ }

func TestIdleConnectionsAreClosed(t *testing.T) {
	base := &closes{}
	client := http.Client{Transport: &lockclient.Transport{Base: base}}
	client.CloseIdleConnections()
	if base.closed != 1 {
		t.Error("they are not")
	}
	(&lockclient.Transport{Base: &answers{}}).CloseIdleConnections() // it has none
}

// A body that does not come must not keep the caller from the answer.
func TestAnAnswerThatTricklesIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		defer write.Close()
		var a answers
		a.all = append(a.all, a.answer(503, problemType, "1", read))
		client := http.Client{Transport: &lockclient.Transport{Base: closesBody{&a, read}}}
		began := time.Now()
		answer, err := client.Get("http://shop.test/orders")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if took := time.Since(began); took != 5*time.Second || answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%d after %v", answer.StatusCode, took)
		}
		if _, err := io.ReadAll(answer.Body); err == nil {
			t.Error("nothing tells that the body is not all there")
		}
	})
}

// closesBody has a body end when it is closed, as that of net/http does.
type closesBody struct {
	http.RoundTripper
	body io.Closer
}

func (c closesBody) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = closing{answer.Body, func() { _ = c.body.Close() }}
	}
	return answer, err
}

// http.Client takes an answer of a RoundTripper that has no body.
func TestAnAnswerWithoutABody(t *testing.T) {
	header := http.Header{"Content-Type": {problemType}, "Retry-After": {"1"}}
	base := answers{all: []func(*http.Request) (*http.Response, error){func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusConflict, Header: header, Request: r}, nil
	}}}
	client := http.Client{Transport: &lockclient.Transport{Base: &base}}
	answer, err := client.Get("http://shop.test/orders")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if len(base.bodies) != 1 {
		t.Errorf("%d tries", len(base.bodies))
	}
}

// An answer that a service keeps and sends again does not change.
func TestAReplayIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		a.all = append(a.all, a.answer(409, problemType, "1", strings.NewReader(busy)))
		kept := answers{all: []func(*http.Request) (*http.Response, error){func(r *http.Request) (*http.Response, error) {
			answer, err := a.all[0](r)
			answer.Header.Set("Idempotent-Replayed", "true")
			return answer, err
		}}}
		client := http.Client{Transport: &lockclient.Transport{Base: &kept}}
		answer, err := client.Get("http://shop.test/orders")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if len(kept.bodies) != 1 {
			t.Errorf("%d tries", len(kept.bodies))
		}
	})
}
