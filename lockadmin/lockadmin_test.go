package lockadmin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const within = 20 * time.Second

// locker opens a Locker that is closed when the test ends.
func locker(t *testing.T, client redis.UniversalClient, name string) *lockmw.Locker {
	t.Helper()
	l, err := lockmw.New(client, lockmw.WithInstance(name), lockmw.WithNote(func(ctx context.Context) string {
		note, _ := ctx.Value(noteKey{}).(string)
		return note
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx)
	})
	return l
}

type noteKey struct{}

func hold(t *testing.T, l *lockmw.Locker, key, note string, p lockmw.Policy) *lockmw.Lease {
	t.Helper()
	_, lease, err := l.Acquire(context.WithValue(context.Background(), noteKey{}, note), key, p)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// serve serves h for the test.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func get(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within) // a stream would never end
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	r.Host = "localhost"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A told is what a message of the stream says, as the page reads it.
type told struct {
	Now    int64     `json:"now"`
	Reset  bool      `json:"reset"`
	Rows   []row     `json:"rows"`
	Until  [][]int64 `json:"until"`
	Gone   []uint64  `json:"gone"`
	More   bool      `json:"more"`
	Status struct {
		State string `json:"state"`
		AsOf  int64  `json:"asOf"`
		Cut   bool   `json:"cut"`
	} `json:"status"`
	Past []struct {
		Kind, Key, Reason, Holder string
	} `json:"past"`
	Settings *[]struct {
		Pattern, Change, Source, Author, Reason string
		Off                                     bool
		Since, Ends                             int64
		Names, Refused                          []string
	} `json:"settings"`
}

type row struct {
	ID      uint64 `json:"id"`
	Key     string `json:"key"`
	Mode    string `json:"mode"`
	Permits int    `json:"permits"`
	Waiting int    `json:"waiting"`
	Holders []struct {
		Instance string `json:"instance"`
		Own      bool   `json:"own"`
		Note     string `json:"note"`
		Since    int64  `json:"since"`
		Until    int64  `json:"until"`
		Cools    bool   `json:"cools"`
		HandedOn bool   `json:"handed_on"`
	} `json:"holders"`
	Waiters []struct {
		Instance string `json:"instance"`
		Own      bool   `json:"own"`
		Note     string `json:"note"`
		Mode     string `json:"mode"`
		Since    int64  `json:"since"`
	} `json:"waiters"`
	Answer *struct {
		State string `json:"state"`
		Work  string `json:"work"`
		Since int64  `json:"since"`
		Until int64  `json:"until"`
		Bytes int    `json:"bytes"`
	} `json:"answer"`
}

// A reader is a page that is open: it keeps what the stream tells, as the page does.
type reader struct {
	*testing.T
	lines    *bufio.Reader
	close    func()
	rows     map[uint64]row
	past     int // messages with incidents
	settings int // messages with live settings
	last     told
	until    int // renewals
}

// follow opens the stream at a page's address.
func follow(t *testing.T, url string) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?get=events", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	reading := &reader{T: t, lines: bufio.NewReader(w.Body), rows: make(map[uint64]row)}
	reading.close = func() {
		cancel()
		_ = w.Body.Close()
	}
	t.Cleanup(reading.close)
	if got := w.Header.Get("Content-Type"); w.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%d, %s", w.StatusCode, got)
	}
	return reading
}

// next reads one message, or returns false at the end of the stream.
func (r *reader) next() bool {
	r.Helper()
	line, err := r.lines.ReadString('\n')
	if err != nil {
		return false
	}
	text, ok := strings.CutPrefix(line, "data: ")
	empty, err := r.lines.ReadString('\n')
	if !ok || err != nil || empty != "\n" {
		r.Fatalf("%q and %q are no event", line, empty)
	}
	r.last = told{}
	if err := json.Unmarshal([]byte(text), &r.last); err != nil {
		r.Fatalf("%s: %v", text, err)
	}
	if r.last.Reset {
		clear(r.rows)
	}
	for _, one := range r.last.Rows {
		r.rows[one.ID] = one
	}
	for _, ends := range r.last.Until {
		if _, ok := r.rows[uint64(ends[0])]; !ok {
			r.Errorf("renewed: %d, which is not there", ends[0])
		}
		r.until++
	}
	for _, id := range r.last.Gone {
		delete(r.rows, id)
	}
	if r.last.Past != nil {
		r.past++
	}
	if r.last.Settings != nil {
		r.settings++
	}
	return true
}

// await reads until ok.
func (r *reader) await(what string, ok func() bool) {
	r.Helper()
	late := time.AfterFunc(within, r.close)
	defer late.Stop()
	for !ok() {
		if !r.next() {
			r.Fatalf("the stream has ended, or not within %v: %s; it says %+v, rows %+v", within, what, r.last, r.rows)
		}
	}
}

// find returns the row of a key.
func (r *reader) find(key string) (row, bool) {
	for _, one := range r.rows {
		if one.Key == key {
			return one, true
		}
	}
	return row{}, false
}

func (r *reader) has(key string) func() bool {
	return func() bool {
		_, ok := r.find(key)
		return ok
	}
}

func TestTheStreamTellsOfLocksAsTheyComeAndGo(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		// A real server is shared with other tests, so the keys are this test's alone.
		prefix := redistest.Prefix(t)
		own, other := locker(t, s.Client(t), "web-1"), locker(t, s.Client(t), "web-2")
		h := lockadmin.Handler(own)
		page := follow(t, serve(t, h).URL)
		page.await("it is live", func() bool { return page.last.Status.State == "live" && page.last.Status.AsOf > 0 })

		lease := hold(t, other, prefix+"order:7", "GET /\"<b>\n", lockmw.Policy{TTL: 6 * time.Second})
		page.await("the lock is there", page.has(prefix+"order:7"))
		one, _ := page.find(prefix + "order:7")
		if one.Mode != "exclusive" || one.Waiting != 0 || len(one.Holders) != 1 {
			t.Fatalf("%+v", one)
		}
		by := one.Holders[0]
		if by.Instance != other.Instance() || by.Own || by.Note != "GET /\"<b>\uFFFD" {
			t.Errorf("%+v", by)
		}
		if age, left := page.last.Now-by.Since, by.Until-page.last.Now; age < 0 || age > within.Milliseconds() || left < 1 || left > 6000 {
			t.Errorf("held for %d ms, %d ms are left", age, left)
		}

		waiting := make(chan *lockmw.Lease)
		go func() {
			ctx := context.WithValue(context.Background(), noteKey{}, "<i>")
			_, next, _ := own.Acquire(ctx, prefix+"order:7", lockmw.Policy{Wait: time.Minute})
			waiting <- next
		}()
		page.await("somebody waits", func() bool { one, _ := page.find(prefix + "order:7"); return one.Waiting == 1 })
		one, _ = page.find(prefix + "order:7")
		if len(one.Waiters) != 1 {
			t.Fatalf("%+v, want one who waits", one)
		}
		if w := one.Waiters[0]; w.Instance != own.Instance() || !w.Own || w.Note != "<i>" || w.Mode != "exclusive" || w.Since == 0 || w.Since > page.last.Now {
			t.Errorf("%+v waits at %d", w, page.last.Now)
		}
		page.await("it is renewed", func() bool { return page.until > 0 })
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		next := <-waiting
		page.await("this process has it", func() bool {
			one, _ := page.find(prefix + "order:7")
			return len(one.Holders) == 1 && one.Holders[0].Own && one.Waiting == 0 && one.Waiters == nil
		})
		if err := next.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		page.await("it is gone", func() bool { return !page.has(prefix + "order:7")() })

		readers := []*lockmw.Lease{
			hold(t, own, prefix+"r", "", lockmw.Policy{Mode: lockmw.Shared}), hold(t, other, prefix+"r", "", lockmw.Policy{Mode: lockmw.Shared}),
			hold(t, own, prefix+"p", "", lockmw.Policy{Permits: 3}),
		}
		page.await("readers and permits", func() bool {
			r, _ := page.find(prefix + "r")
			p, _ := page.find(prefix + "p")
			return r.Mode == "shared" && len(r.Holders) == 2 && p.Mode == "permits" && p.Permits == 3
		})
		for _, one := range readers {
			_ = one.Release(context.Background())
		}
	})
}

func TestTheStreamTellsOfRefusalsAndLosses(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own, other := locker(t, s.Client(t), "web-1"), locker(t, s.Client(t), "web-2")
	lease := hold(t, other, "k", "", lockmw.Policy{})
	refuse := func() {
		if _, _, err := own.Acquire(context.Background(), "k", lockmw.Policy{}); err == nil {
			t.Fatal("not refused")
		}
	}
	refuse() // before any page is open
	page := follow(t, serve(t, lockadmin.Handler(own)).URL)
	page.await("what was before", func() bool { return len(page.last.Past) == 1 })
	if p := page.last.Past[0]; p.Kind != "refused" || p.Key != "k" || p.Reason != lockmw.CodeBusy || p.Holder != other.Instance() {
		t.Errorf("%+v", p)
	}
	refuse()
	page.await("another one", func() bool { return len(page.last.Past) == 2 })
	told := page.past
	for range 3 { // beats that have nothing new
		page.next()
	}
	if page.past != told {
		t.Error("what has not changed is told again")
	}
	_ = lease.Release(context.Background())
}

// The page is told of live settings, and when there are none any more, and of nothing that has not changed.
func TestTheStreamTellsOfLiveSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "settings.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"*/pay": {"off": true, "until": "` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano) + `", "author": "ada", "reason": "INC-42"}, "*/m*": {"maxHold": "1s"}, "*/late": {"off": true}}`)
	locks, err := lockmw.New(redistest.Embedded(t).Client(t), lockmw.WithSettings(lockmw.SettingsFile(file)), lockmw.AllowOff(),
		lockmw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close(t.Context()) }) // whose context has ended then
	hold(t, locks, "k", "", lockmw.Policy{Name: "pay"})
	hold(t, locks, "l", "", lockmw.Policy{Name: "mail", MinHold: time.Minute})
	page := follow(t, serve(t, lockadmin.Handler(locks)).URL)
	page.await("settings", func() bool { return page.last.Settings != nil && len(*page.last.Settings) == 3 })
	for _, s := range *page.last.Settings {
		switch s.Pattern {
		case "*/pay":
			if !s.Off || s.Change != "off=true" || s.Source != "file" || s.Author != "ada" || s.Reason != "INC-42" || s.Ends-s.Since > 3_600_000 || s.Ends-s.Since < 3_300_000 || !slices.Equal(s.Names, []string{"pay"}) {
				t.Errorf("%+v", s)
			}
		case "*/m*":
			if s.Off || s.Names != nil || len(s.Refused) != 1 || !strings.Contains(s.Refused[0], "MinHold") {
				t.Errorf("%+v", s)
			}
		case "*/late":
			if s.Off || s.Names != nil || s.Refused != nil || s.Change != "off=true" {
				t.Errorf("nobody has used the name: %+v", s)
			}
		default:
			t.Errorf("%+v", s)
		}
	}
	told := page.settings
	for range 3 {
		page.next()
	}
	if page.settings != told {
		t.Error("what has not changed is told again")
	}
	hold(t, locks, "m", "", lockmw.Policy{Name: "late"})
	page.await("that the first call of a name is off", func() bool {
		return page.last.Settings != nil && (*page.last.Settings)[0].Pattern == "*/late" && (*page.last.Settings)[0].Off
	})
	write(`{}`)
	page.await("that there are none", func() bool { return page.last.Settings != nil && len(*page.last.Settings) == 0 })
}

// Pages that are open share one reading of Redis, and without one nothing is read.
func TestOneReadingForAllPages(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	client := s.Client(t)
	own := locker(t, s.Client(t), "web-1")
	server := serve(t, lockadmin.Handler(own))
	scans := func() int64 {
		text := client.Info(context.Background(), "commandstats").Val()
		_, after, ok := strings.Cut(text, "cmdstat_scan:calls=")
		if !ok {
			return 0
		}
		number, _, _ := strings.Cut(after, ",")
		var n int64
		if err := json.Unmarshal([]byte(number), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	live := func(r *reader) {
		r.await("it is live", func() bool { return r.last.Status.AsOf > 0 })
	}
	for range 2 { // the second time all begins anew
		first := follow(t, server.URL)
		live(first)
		from, began := scans(), time.Now()
		var pages []*reader
		for range 8 {
			p := follow(t, server.URL)
			live(p)
			pages = append(pages, p)
		}
		was := first.last.Status.AsOf
		for n := 0; n < 2; {
			if first.next(); first.last.Status.AsOf != was {
				was = first.last.Status.AsOf
				n++
			}
		}
		if n, most := scans()-from, int64(time.Since(began).Seconds())+3; n > most {
			t.Errorf("%d readings for nine pages, want at most %d", n, most)
		}
		first.close()
		for _, p := range pages {
			p.close()
		}
		lockadmin.AwaitIdle(t, server.Config.Handler, within)
		before := scans()
		time.Sleep(1500 * time.Millisecond) // a turn and a half, in which nothing may happen
		if n := scans() - before; n > 0 {
			t.Errorf("%d readings without a page", n)
		}
	}
}

func TestThePageSaysThatRedisIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	hold(t, own, "k", "", lockmw.Policy{})
	page := follow(t, serve(t, lockadmin.Handler(own)).URL)
	page.await("the lock is there", page.has("k"))
	page.await("it is live", func() bool { return page.last.Status.State == "live" })
	asOf := page.last.Status.AsOf
	s.SetError("LOADING secret of Redis")
	page.await("Redis is away", func() bool { return page.last.Status.State == "unreachable" })
	if now := page.last.Status.AsOf; now < asOf || now > page.last.Now || !page.has("k")() {
		t.Errorf("as of %d after %d, at %d; the lock is there: %v", now, asOf, page.last.Now, page.has("k")())
	}
	s.SetError("")
	page.await("Redis is back", func() bool { return page.last.Status.State == "live" })

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = own.Close(ctx)
	page.await("the Locker is closed", func() bool { return page.last.Status.State == "closed" })
}

func TestALimitedListSaysSo(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	for i := range 20 {
		hold(t, own, string(rune('a'+i))+":1", "", lockmw.Policy{})
	}
	h := lockadmin.Handler(own, lockadmin.WithLimit(10))
	page := follow(t, serve(t, h).URL)
	page.await("it is live", func() bool { return page.last.Status.AsOf > 0 })
	if len(page.rows) != 10 || !page.last.Status.Cut {
		t.Errorf("%d rows, cut: %v", len(page.rows), page.last.Status.Cut)
	}
	for i := range 20 {
		key := string(rune('a'+i)) + ":"
		var found struct {
			Rows []row `json:"rows"`
			Cut  bool  `json:"cut"`
		}
		w := get(t, h, "/?get=find&prefix="+key)
		if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil || len(found.Rows) != 1 || found.Rows[0].Key != key+"1" || found.Cut {
			t.Errorf("%s: %s, %v", key, w.Body, err)
		}
		if w := get(t, h, "/?get=find&prefix="+key+"1"); strings.Count(w.Body.String(), `"id"`) != 1 {
			t.Errorf("%s1: %s", key, w.Body)
		}
	}
	s.SetError("LOADING secret of Redis")
	if w := get(t, h, "/?get=find&prefix=a"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A stuckBrowser is a response that nobody reads: a Write blocks until the test ends it.
type stuckBrowser struct {
	header   http.Header
	deadline atomic.Int64 // of the Write that blocks
	blocked  chan struct{}
	end      chan struct{}
	once     sync.Once
}

func (b *stuckBrowser) Header() http.Header             { return b.header }
func (b *stuckBrowser) WriteHeader(int)                 {}
func (b *stuckBrowser) Flush()                          {}
func (b *stuckBrowser) SetReadDeadline(time.Time) error { return nil }
func (b *stuckBrowser) SetWriteDeadline(t time.Time) error {
	b.deadline.Store(t.UnixNano())
	return nil
}

func (b *stuckBrowser) Write([]byte) (int, error) {
	b.once.Do(func() { close(b.blocked) })
	<-b.end
	return 0, os.ErrDeadlineExceeded
}

// A browser that reads nothing holds up neither other pages nor the Locker, and is given up
// when it has not read for a while.
func TestASlowBrowserHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	h := lockadmin.Handler(own)
	stuck := &stuckBrowser{header: make(http.Header), blocked: make(chan struct{}), end: make(chan struct{})}
	var stream sync.WaitGroup
	stream.Go(func() { h.ServeHTTP(stuck, httptest.NewRequest(http.MethodGet, "http://localhost/?get=events", nil)) })
	<-stuck.blocked
	page := follow(t, serve(t, h).URL)
	for i := range 3 {
		key := fmt.Sprint("k", i)
		lease := hold(t, own, key, "", lockmw.Policy{})
		page.await("the lock is there", page.has(key))
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		page.await("it is gone", func() bool { return !page.has(key)() })
	}
	if left := time.Until(time.Unix(0, stuck.deadline.Load())); left > time.Minute {
		t.Errorf("the browser may take %v to read", left)
	}
	close(stuck.end)
	stream.Wait() // the stream ends with the Write that fails
}

// A browser that does not read what was found for it holds up no other search.
func TestASlowBrowserHoldsUpNoSearch(t *testing.T) {
	t.Parallel()
	own := locker(t, redistest.Embedded(t).Client(t), "web-1")
	hold(t, own, "k", "", lockmw.Policy{})
	h := lockadmin.Handler(own)
	stuck := &stuckBrowser{header: make(http.Header), blocked: make(chan struct{}), end: make(chan struct{})}
	var first sync.WaitGroup
	first.Go(func() {
		h.ServeHTTP(stuck, httptest.NewRequest(http.MethodGet, "http://localhost/?get=find&prefix=k", nil))
	})
	<-stuck.blocked
	if w := get(t, h, "/?get=find&prefix=k"); !strings.Contains(w.Body.String(), `"key":"k"`) {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	close(stuck.end)
	first.Wait()
}

// A server that limits how long a response may take does not cut the stream, and one that
// shuts down need not wait for pages to be closed.
func TestTheStreamLivesAsLongAsItsServer(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	server := httptest.NewUnstartedServer(lockadmin.Handler(own))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 2*time.Second, 2*time.Second
	server.Start()
	t.Cleanup(server.Close)
	page := follow(t, server.URL)
	began := time.Now()
	for time.Since(began) < 5*time.Second {
		if !page.next() {
			t.Fatalf("the stream has ended after %v", time.Since(began))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := server.Config.Shutdown(ctx); err != nil {
		t.Fatalf("the server waits for a page: %v", err)
	}
	for page.next() {
	}
}
