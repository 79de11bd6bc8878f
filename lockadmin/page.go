package lockadmin

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// What the page is made of is asked for by the query at the page's own address, such as
// ?get=app.js: relative addresses work wherever the handler is mounted, with a slash at
// the end or without, and whatever a proxy in front makes of the path.
//
//go:embed static
var static embed.FS

var page = template.Must(template.ParseFS(static, "static/index.html"))

// files are those that the page loads, with their types.
var files = map[string]string{
	"app.js":     "text/javascript; charset=utf-8",
	"dialogs.js": "text/javascript; charset=utf-8",
	"live.js":    "text/javascript; charset=utf-8",
	"table.js":   "text/javascript; charset=utf-8",
	"style.css":  "text/css; charset=utf-8",
	"icon.svg":   "image/svg+xml",
}

// contentPolicy lets the page load what comes from its own address and nothing else, and
// has the browser refuse any text that would become markup.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// A console answers what the page asks for.
type console struct {
	locks   *lockmw.Locker
	recent  *recent.Log
	options options
	guard   *http.CrossOriginProtection
	streams streams
	ends    ends
	finding chan struct{} // has room for the one search that may be under way
}

func newConsole(locks *lockmw.Locker, o options) *console {
	return &console{
		locks: locks, recent: seam.Recent(locks), options: o,
		guard: http.NewCrossOriginProtection(), finding: make(chan struct{}, 1),
	}
}

// ServeHTTP implements http.Handler.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer c.recovers(w)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	asked := r.URL.Query()
	switch what := asked.Get("get"); {
	case !c.answersTo(r):
		c.misnamed(w, r)
	case r.Method == http.MethodPost && c.options.changes():
		c.fulfil(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", c.methods())
		http.Error(w, "This page is for reading alone.", http.StatusMethodNotAllowed)
	case what == "":
		c.page(w, r)
	case files[what] != "":
		c.file(w, r, what)
	case foreign(r):
		http.Error(w, "This was asked for by another site.", http.StatusForbidden)
	case what == "events" && r.Method == http.MethodGet:
		c.stream(w, r)
	case what == "look" && r.Method == http.MethodGet:
		c.look(w, r, asked.Get("key"))
	case what == "find" && r.Method == http.MethodGet:
		c.find(w, r, asked.Get("prefix"))
	default:
		http.NotFound(w, r)
	}
}

func (c *console) methods() string {
	if c.options.changes() {
		return "GET, HEAD, POST"
	}
	return "GET, HEAD"
}

// recovers answers a request whose handling has panicked, as authorise may. Where the
// answer has begun, that does nothing.
func (c *console) recovers(w http.ResponseWriter) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler { //nolint:errorlint // it is this value that net/http knows
		panic(cause)
	}
	c.options.logger.Error("lockadmin: a request has panicked", "panic", cause, "stack", string(debug.Stack()))
	http.Error(w, "The console has failed; its log says why.", http.StatusInternalServerError)
}

// foreign reports whether the browser says that another site's page asks.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

func (c *console) page(w http.ResponseWriter, r *http.Request) {
	var said struct {
		Token, Instance        string
		MayRelease, MayResolve bool
	}
	said.Instance = c.locks.Instance()
	said.MayRelease, said.MayResolve = c.options.mayRelease.of(r), c.options.mayResolve.of(r)
	if said.MayRelease || said.MayResolve {
		said.Token = session(w, r)
	}
	var text bytes.Buffer
	if err := page.Execute(&text, said); err != nil {
		panic(err) // the template is a part of this package
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.write(w, r, http.StatusOK, text.Bytes())
}

func (c *console) file(w http.ResponseWriter, r *http.Request, name string) {
	text, err := static.ReadFile("static/" + name)
	if err != nil {
		panic(err) // as with the template
	}
	w.Header().Set("Content-Type", files[name])
	c.write(w, r, http.StatusOK, text)
}

// answer writes v as JSON.
func (c *console) answer(w http.ResponseWriter, r *http.Request, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it has strings and numbers only
	}
	w.Header().Set("Content-Type", "application/json")
	c.write(w, r, status, text)
}

func (c *console) write(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(text); err != nil { //nolint:gosec // JSON, or made by html/template
		c.options.logger.Debug("lockadmin: an answer was not read", slog.Any("error", err))
	}
}
