package lockadmin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/lockmw"
)

// A wish wants a token in a header and the same in a cookie. The page has it from the
// response that set the cookie; another site can neither read it nor send the header. It
// is the browser's, and not the process's: where several processes serve the page, the
// next request may come to another one.
const (
	tokenHeader = "X-Lockadmin-Token" //nolint:gosec // its name is no secret
	tokenCookie = "lockadmin"
)

// session returns the token of the browser that r comes from, and sets its cookie.
func session(w http.ResponseWriter, r *http.Request) string {
	token := rand.Text()
	if known := tokensOf(r); len(known) > 0 {
		token = known[0]
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // a service without TLS gets one that is not Secure
		Name: tokenCookie, Value: token, HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteLaxMode, // a page that was opened by a link keeps the token of the others
	})
	return token
}

// tokensOf returns the tokens in r's cookies. There may be several of the name: another
// path's, or one that a neighbouring domain has set, and which comes first is its choice.
func tokensOf(r *http.Request) (tokens []string) {
	for _, cookie := range r.CookiesNamed(tokenCookie) {
		if len(cookie.Value) == len(rand.Text()) && strings.Trim(cookie.Value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "" {
			tokens = append(tokens, cookie.Value)
		}
	}
	return tokens
}

// asksItself reports whether r comes from the page, in the browser that has its token.
func (c *console) asksItself(r *http.Request) bool {
	said := r.Header.Get(tokenHeader)
	known := slices.ContainsFunc(tokensOf(r), func(token string) bool {
		return subtle.ConstantTimeCompare([]byte(token), []byte(said)) == 1
	})
	return known && !foreign(r) && c.guard.Check(r) == nil
}

// mostBody is more than the longest key, with twenty thousand holders.
const mostBody = 4 << 20

// A wish is what the page sends: the key, and either the holders whom the operator was shown, to
// take the lock from them, or uncertain work, and what became of it.
type wish struct {
	Key     string   `json:"key"`
	Holders []holder `json:"holders"`
	Work    string   `json:"work"` // its id
	As      string   `json:"as"`   // again or discard; empty: it is about a release
	Reason  string   `json:"reason"`
}

// by says who wants what r asks for, and why.
func (c *console) by(r *http.Request, asked wish) lockmw.Intervention {
	author := strings.ReplaceAll(store.Printable(c.options.author(r)), string(utf8.RuneError), "")
	return lockmw.Intervention{Author: store.Beginning(author, store.MostOfAuthor), Reason: strings.TrimSpace(asked.Reason)}
}

// address is where r comes from.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "console, from " + host
}

// A reply says in words how it went.
type reply struct {
	Text string `json:"text"`
}

// fulfil does what an operator wants, if the page itself asks for it, and the operator may.
func (c *console) fulfil(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, text string) { c.answer(w, r, status, reply{text}) }
	if !c.asksItself(r) {
		refuse(http.StatusForbidden, "This was not asked for by the page itself. Reload it, and try again.")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(http.StatusUnsupportedMediaType, "This is not JSON.")
		return
	}
	var asked wish
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil || json.Unmarshal(body, &asked) != nil {
		refuse(http.StatusBadRequest, "This does not name a lock.")
		return
	}
	may, otherwise, do := c.options.mayRelease, "You may not release locks.", c.releaseAs
	if asked.As != "" {
		may, otherwise, do = c.options.mayResolve, "You may not say what became of work.", c.resolveAs
	}
	if !may.of(r) {
		refuse(http.StatusForbidden, otherwise)
		return
	}
	status, text := do(r, asked)
	refuse(status, text)
}

// failed says to the page what it may know of err, and the whole to the log.
func (c *console) failed(err error) (status int, text string) {
	c.options.logger.Warn("lockadmin: Redis was asked in vain", slog.Any("error", err))
	switch {
	case errors.Is(err, lockmw.ErrInvalidKey):
		return http.StatusBadRequest, "No lock of lockmw can have this key."
	case errors.Is(err, lockmw.ErrInvalidPolicy):
		return http.StatusBadRequest, "The reason is too long, or has characters that cannot be printed."
	case errors.Is(err, lockmw.ErrClosed):
		return http.StatusServiceUnavailable, "This process has closed its locks."
	}
	return http.StatusServiceUnavailable, "Redis cannot be reached."
}
