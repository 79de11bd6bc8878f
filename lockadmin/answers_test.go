package lockadmin_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// payment is a flight whose work is not done again where nobody knows of it.
var payment = lockmw.Flight{Retain: time.Hour, Crash: lockmw.Uncertain}

// uncertain leaves work under key of which nobody knows whether it was done, and returns its id.
func uncertain(t *testing.T, l *lockmw.Locker, key string) (work string) {
	t.Helper()
	_, _, err := lockmw.Do(context.Background(), l, key, payment, func(context.Context) (string, error) { return "", lockmw.ErrUncertain })
	if !errors.Is(err, lockmw.ErrUncertain) {
		t.Fatal(err)
	}
	answer := left(t, l, key)
	if answer == nil || answer.State != lockmw.AnswerUncertain {
		t.Fatalf("%+v, want uncertain work", answer)
	}
	return answer.Work
}

// left is what Do has left beside the lock of key.
func left(t *testing.T, l *lockmw.Locker, key string) *lockmw.KeptAnswer {
	t.Helper()
	info, err := l.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return info.Answer
}

// pays does the work of key, unless there is an answer.
func pays(l *lockmw.Locker, key string) (receipt string, shared bool, err error) {
	return lockmw.Do(context.Background(), l, key, payment, func(context.Context) (string, error) { return "a private receipt", nil })
}

// A lock that nobody has or waits for is found by its whole key, if it has an answer. What is in the answer is told nobody.
func TestALockIsFoundForItsAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	h := lockadmin.Handler(own)
	work := uncertain(t, own, "pay:7")
	if _, _, err := pays(own, "pay:8"); err != nil {
		t.Fatal(err)
	}
	began := time.Now().UnixMilli()
	for _, ask := range []string{"look&key=", "find&prefix="} {
		for key, state := range map[string]string{"pay:7": "uncertain", "pay:8": "kept", "pay:": "", "pay:77": "", "{a}": ""} {
			w := get(t, h, "/?get="+ask+url.QueryEscape(key))
			if strings.Contains(w.Body.String(), "private") {
				t.Errorf("%s%s: the answer is told: %s", ask, key, w.Body)
			}
			var said struct{ Rows []row }
			if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%s%s: %d %s", ask, key, w.Code, w.Body)
			}
			if state == "" {
				if len(said.Rows) > 0 {
					t.Errorf("%s%s: %+v, want nothing", ask, key, said.Rows)
				}
				continue
			}
			if len(said.Rows) != 1 || said.Rows[0].Key != key || len(said.Rows[0].Holders) > 0 || said.Rows[0].Answer == nil {
				t.Fatalf("%s%s: %s", ask, key, w.Body)
			}
			a := *said.Rows[0].Answer
			if a.State != state || began-a.Since > within.Milliseconds() || a.Since > began {
				t.Errorf("%s%s: %+v, want %s, since some moment before %d", ask, key, a, state, began)
			}
			if kept := state == "kept"; kept && (a.Work != "" || a.Until-a.Since != time.Hour.Milliseconds() || a.Bytes < len("a private receipt")) || !kept && (a.Work != work || a.Until != 0) {
				t.Errorf("%s%s: %+v; the work is %s", ask, key, a, work)
			}
		}
	}
	hold(t, own, "pay:7", "", lockmw.Policy{})
	if w := get(t, h, "/?get=look&key=pay:7"); !strings.Contains(w.Body.String(), `"rows":[]`) {
		t.Errorf("the page has a held one twice: %s", w.Body)
	}
	if w := get(t, h, "/?get=find&prefix=pay:7"); strings.Count(w.Body.String(), `"state":"in progress"`) != 1 {
		t.Errorf("a held one is not found once: %s", w.Body)
	}
	s.SetError("LOADING secret of Redis")
	if w := get(t, h, "/?get=look&key=pay:7"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The stream tells of work that is in progress under a lock, and of an answer that is kept while the lock is held again.
// Who is refused because nobody knows is told with the key.
func TestTheStreamTellsOfAnswers(t *testing.T) {
	t.Parallel()
	own := locker(t, redistest.Embedded(t).Client(t), "web-1")
	page := follow(t, serve(t, lockadmin.Handler(own)).URL)
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, _, err := lockmw.Do(context.Background(), own, "pay:7", payment, func(context.Context) (string, error) {
			<-end
			return "a private receipt", nil
		})
		ended <- err
	}()
	answer := func(state string) func() bool {
		return func() bool {
			one, _ := page.find("pay:7")
			return one.Answer != nil && one.Answer.State == state
		}
	}
	page.await("the work is in progress", answer("in progress"))
	if one, _ := page.find("pay:7"); one.Answer.Work == "" || len(one.Holders) != 1 {
		t.Errorf("%+v", one)
	}
	close(end)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	page.await("the lock is free", func() bool { return !page.has("pay:7")() })
	hold(t, own, "pay:7", "", lockmw.Policy{})
	page.await("the answer is kept", answer("kept"))

	uncertain(t, own, "pay:8")
	if _, _, err := pays(own, "pay:8"); !errors.Is(err, lockmw.ErrUncertain) {
		t.Fatal(err)
	}
	page.await("the refusal", func() bool { return len(page.last.Past) == 1 })
	if p := page.last.Past[0]; p.Key != "pay:8" || p.Reason != lockmw.CodeIdempotencyUncertain {
		t.Errorf("%+v, want pay:8 and %s", p, lockmw.CodeIdempotencyUncertain)
	}
}

// lines are what was logged. Only one of a few lines is read.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestWorkIsResolved(t *testing.T) {
	t.Parallel()
	own := locker(t, redistest.Embedded(t).Client(t), "web-1")
	log := make(lines, 10)
	v := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithResolve(anybody), lockadmin.WithLogger(slog.New(slog.NewTextHandler(log, nil))))).URL)
	logged := func(key, work, as string) {
		t.Helper()
		line := <-log
		for _, want := range []string{"work was resolved", "key=" + key, "work=" + work, "as=" + as, "remote=127.0.0.1:"} {
			if !strings.Contains(line, want) {
				t.Errorf("the log does not say %q: %s", want, line)
			}
		}
	}

	work := uncertain(t, own, "again")
	if status, text := v.resolve("again", work, "again", nil); status != http.StatusOK || text != "Resolved." {
		t.Errorf("%d %s", status, text)
	}
	logged("again", work, "again")
	if receipt, shared, err := pays(own, "again"); receipt != "a private receipt" || shared || err != nil {
		t.Errorf("again: %q, %v, %v; want that the work is done", receipt, shared, err)
	}

	work = uncertain(t, own, "discard")
	if status, text := v.resolve("discard", work, "discard", nil); status != http.StatusOK || text != "Resolved." {
		t.Errorf("%d %s", status, text)
	}
	logged("discard", work, "discard")
	if receipt, _, err := pays(own, "discard"); !errors.Is(err, lockmw.ErrAnswerNotKept) {
		t.Errorf("discard: %q, %v; want that nobody does the work", receipt, err)
	}
	if status, text := v.resolve("discard", work, "again", nil); status != http.StatusConflict || !strings.HasPrefix(text, "This work is not uncertain any more") {
		t.Errorf("what is resolved: %d %s", status, text)
	}
	if line := tried(log); line != "" {
		t.Errorf("what was not done is logged: %s", line)
	}
}

// tried is a line that was logged, or empty.
func tried(log lines) string {
	select {
	case line := <-log:
		return line
	default:
		return ""
	}
}

func TestWhatIsNotResolved(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	work := uncertain(t, own, "k")
	log := make(lines, 10)
	v := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithResolve(anybody), lockadmin.WithLogger(slog.New(slog.NewTextHandler(log, nil))))).URL)
	stranger := open(t, v.url)
	for name, tc := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"without the token":   {func(r *http.Request) { r.Header.Del("X-Lockadmin-Token") }, http.StatusForbidden},
		"with another token":  {func(r *http.Request) { r.Header.Set("X-Lockadmin-Token", stranger.token) }, http.StatusForbidden},
		"from another origin": {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example"); r.Header.Del("Sec-Fetch-Site") }, http.StatusForbidden},
		"from another site":   {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"as a form":           {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		"by GET":              {func(r *http.Request) { r.Method = http.MethodGet }, http.StatusOK}, // it is the page
		"by PUT":              {func(r *http.Request) { r.Method = http.MethodPut }, http.StatusMethodNotAllowed},
	} {
		if status, text := v.resolve("k", work, "again", tc.change); status != tc.status || left(t, own, "k") == nil {
			t.Errorf("%s: %d %s, want %d; left: %+v", name, status, text, tc.status, left(t, own, "k"))
		}
	}
	stranger.client.Jar = nil
	if status, _ := stranger.resolve("k", work, "again", nil); status != http.StatusForbidden || left(t, own, "k") == nil {
		t.Errorf("without the cookie: %d; left: %+v", status, left(t, own, "k"))
	}
	id, err := strconv.ParseInt(work, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		key, work, as, text string
		status              int
	}{
		"other work":        {"k", strconv.FormatInt(id+1, 10), "again", "This work is not uncertain any more: it has its answer, or somebody has said what became of it.", http.StatusConflict},
		"no work":           {"k", "", "again", "This work is not uncertain any more: it has its answer, or somebody has said what became of it.", http.StatusConflict},
		"another key":       {"l", work, "again", "This work is not uncertain any more: it has its answer, or somebody has said what became of it.", http.StatusConflict},
		"an answer":         {"k", work, "done", "This says neither again nor discard.", http.StatusBadRequest},
		"an impossible key": {"{a}", work, "again", "No lock of lockmw can have this key.", http.StatusBadRequest},
	} {
		if status, text := v.resolve(tc.key, tc.work, tc.as, nil); status != tc.status || text != tc.text || left(t, own, "k") == nil {
			t.Errorf("%s: %d %s, want %d %s; left: %+v", name, status, text, tc.status, tc.text, left(t, own, "k"))
		}
	}
	lease := hold(t, own, "k", "", lockmw.Policy{})
	if status, text := v.resolve("k", work, "again", nil); status != http.StatusConflict || text != "Somebody has the lock, and may be at work. Nothing was changed." || left(t, own, "k") == nil {
		t.Errorf("held: %d %s; left: %+v", status, text, left(t, own, "k"))
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	for tried(log) != "" { // the impossible key
	}
	s.SetError("LOADING secret of Redis")
	if status, text := v.resolve("k", work, "again", nil); status != http.StatusServiceUnavailable || text != "Redis has not answered: it may have heard of this or not. Try again." {
		t.Errorf("%d %s", status, text)
	}
	if line := <-log; !strings.Contains(line, "it is not known whether work was resolved") || !strings.Contains(line, "work="+work) || !strings.Contains(line, "remote=127.0.0.1:") {
		t.Errorf("the log: %s", line)
	}
	s.SetError("")
	if status, text := v.resolve("k", work, "again", nil); status != http.StatusOK || left(t, own, "k") != nil {
		t.Errorf("in the end: %d %s; left: %+v", status, text, left(t, own, "k"))
	}
}

// To resolve work is a right of its own: neither of the two gives the other.
func TestWhoMayReleaseAndWhoMayResolve(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	hold(t, own, "held", "", lockmw.Policy{})
	work := uncertain(t, own, "k")
	token := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithResolve(anybody))).URL).token
	for name, tc := range map[string]struct {
		opts             []lockadmin.Option
		classes          []string // of the page's body
		release, resolve int
	}{
		"nobody":               {nil, nil, http.StatusMethodNotAllowed, http.StatusMethodNotAllowed},
		"who may release":      {[]lockadmin.Option{lockadmin.WithForceRelease(anybody)}, []string{"may-release"}, http.StatusConflict, http.StatusForbidden},
		"who may resolve":      {[]lockadmin.Option{lockadmin.WithResolve(anybody)}, []string{"may-resolve"}, http.StatusForbidden, http.StatusConflict},
		"who may both":         {[]lockadmin.Option{lockadmin.WithForceRelease(anybody), lockadmin.WithResolve(anybody)}, []string{"may-release", "may-resolve"}, http.StatusConflict, http.StatusConflict},
		"others may resolve":   {[]lockadmin.Option{lockadmin.WithForceRelease(anybody), lockadmin.WithResolve(nobody)}, []string{"may-release"}, http.StatusConflict, http.StatusForbidden},
		"others may do either": {[]lockadmin.Option{lockadmin.WithForceRelease(nobody), lockadmin.WithResolve(nobody)}, nil, http.StatusForbidden, http.StatusForbidden},
	} {
		v := open(t, serve(t, lockadmin.Handler(own, tc.opts...)).URL)
		if may := len(tc.classes) > 0; may != (v.token != "") {
			t.Errorf("%s: the page has the token %q", name, v.token)
		}
		text := get(t, lockadmin.Handler(own, tc.opts...), "/").Body.String()
		_, text, _ = strings.Cut(text, `<body class="`)
		text, _, _ = strings.Cut(text, `"`)
		if classes := strings.Fields(text); !slices.Equal(classes, tc.classes) {
			t.Errorf("%s: the page may %q, want %q", name, classes, tc.classes)
		}
		// What is asked for cannot be done: other holders, and other work. Who may not is told that first.
		v.token = token
		cookie := func(r *http.Request) { r.Header.Set("Cookie", "lockadmin="+token) }
		if status, text := v.release("held", "[]", cookie); status != tc.release {
			t.Errorf("%s: a release: %d %s, want %d", name, status, text, tc.release)
		}
		if status, text := v.resolve("k", "7", "again", cookie); status != tc.resolve {
			t.Errorf("%s: a resolution: %d %s, want %d", name, status, text, tc.resolve)
		}
	}
	if answer := left(t, own, "k"); answer == nil || answer.Work != work || !held(t, own, "held") {
		t.Errorf("%+v is left", answer)
	}
}
