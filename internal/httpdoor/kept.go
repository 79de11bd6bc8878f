package httpdoor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/lockmw"
)

// An Answer is what is kept of a response for those who ask for the same again. The Codec of a lockmw.Flight gets one to encode, and a
// pointer to one to decode.
type Answer struct {
	Status int         `json:"status,omitempty"`
	Header http.Header `json:"header,omitempty"` // what the handler has set; nil takes a name away
	Added  http.Header `json:"added,omitempty"`  // what it has added to names that middleware in front had set
	Body   []byte      `json:"body,omitempty"`

	// NotKept says that the request was processed, and that there is nothing else to tell: the response was too large, or
	// nobody could give it again.
	NotKept bool `json:"not_kept,omitempty"`
}

// bareFact is the Answer of which nothing is kept.
var bareFact = Answer{NotKept: true}

// writeTo answers with a response that was kept. What w's header has of outer middleware stays.
func (a Answer) writeTo(w http.ResponseWriter) {
	header := w.Header()
	maps.Copy(header, a.Header)
	for name, values := range a.Added {
		header[name] = append(header[name], values...)
	}
	header.Set(door.Replayed, "true")
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = w.Write(a.Body) // to a client that left, perhaps
	}
}

// check returns an error if the answer cannot be given again. It Is lockmw.ErrAnswerNotKept, or no handler can have given it: whoever can write
// to Redis writes answers.
func (a Answer) check() error {
	switch {
	case a.NotKept:
		return lockmw.ErrAnswerNotKept
	case a.Status < http.StatusOK || a.Status > 999:
		return fmt.Errorf("httpdoor: an answer that is kept has the status %d", a.Status)
	}
	for _, h := range []http.Header{a.Header, a.Added} {
		for name, values := range h {
			if !isToken(name) || isNeverKept(name) || slices.ContainsFunc(values, hasControls) {
				return fmt.Errorf("httpdoor: an answer that is kept has a header that no answer may have: %q", name)
			}
		}
	}
	return nil
}

func isNeverKept(name string) bool {
	return door.IsNeverKept(name) || strings.HasPrefix(name, http.TrailerPrefix)
}

// changed returns what a handler has changed of the header that it began with: what it has set, and what it has added to values that were there. It is
// false if that cannot be kept as it is.
func changed(before, after http.Header) (kept, added http.Header, ok bool) {
	kept, added = make(http.Header), make(http.Header)
	for name, values := range after {
		was, there := before[name]
		if there && slices.Equal(was, values) && !describes(name) || !isToken(name) || isNeverKept(name) || isHopByHop(after, name) {
			continue // net/http leaves out what is no name as well
		}
		of := kept
		if n := len(was); n > 0 && n < len(values) && !describes(name) && slices.Equal(was, values[:n]) {
			of, values = added, values[n:]
		}
		of[name] = nil // as it is set by a handler that wants net/http to add none
		for _, value := range values {
			sent := asSent(value)
			if hasControls(sent) || !utf8.ValidString(sent) {
				return nil, nil, false
			}
			of[name] = append(of[name], sent)
		}
	}
	for name := range before {
		if _, there := after[name]; !there && !isNeverKept(name) {
			kept[name] = nil
		}
	}
	return kept, added, true
}

// describes reports whether a name says what the body is. It is kept with the body also where middleware in front has set it, since that may say
// something else of another request.
func describes(name string) bool {
	return name == "Content-Type" || name == "Content-Language" || name == "Content-Encoding"
}

// accepts reports whether who sent a request with header h reads a body in these encodings. Who says nothing about it reads all.
func accepts(h http.Header, encodings []string) bool {
	said := h["Accept-Encoding"]
	if len(said) == 0 {
		return true
	}
	for word := range strings.SplitSeq(strings.Join(encodings, ","), ",") {
		word = strings.TrimSpace(word)
		read := word == "" || strings.EqualFold(word, "identity")
		for option := range strings.SplitSeq(strings.Join(said, ","), ",") {
			name, weight, _ := strings.Cut(option, ";")
			if name = strings.TrimSpace(name); strings.EqualFold(name, word) || name == "*" {
				read = read || strings.Trim(strings.ReplaceAll(weight, " ", ""), "0.") != "q="
			}
		}
		if !read {
			return false
		}
	}
	return true
}

// isHopByHop reports whether the header itself says that name is for this connection.
func isHopByHop(h http.Header, name string) bool {
	for _, line := range h["Connection"] {
		for word := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(word), name) {
				return true
			}
		}
	}
	return false
}

// asSent is what net/http makes of a value.
func asSent(value string) string {
	return textproto.TrimString(strings.NewReplacer("\n", " ", "\r", " ").Replace(value))
}

// hasTrailers reports whether a handler has announced or set what comes behind the body, to the header that it began with.
func hasTrailers(before, h http.Header) bool {
	for name, values := range h {
		trailer := name == "Trailer" && len(values) > 0 || strings.HasPrefix(name, http.TrailerPrefix)
		if trailer && !slices.Equal(before[name], values) {
			return true
		}
	}
	return false
}

// isToken reports whether s is a name by RFC 9110.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// hasControls reports whether s has a character that ends a line or may not be in one.
func hasControls(s string) bool {
	return slices.ContainsFunc([]byte(s), func(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// An httpCodec encodes answers where the Flight has no Codec: a line of JSON, and the body as it is.
type httpCodec struct{}

func (httpCodec) Name() string { return "http" }

func (httpCodec) Encode(_ string, answer any) ([]byte, error) {
	a, ok := answer.(Answer)
	if !ok {
		return nil, fmt.Errorf("httpdoor: %T is no Answer", answer)
	}
	body := a.Body
	a.Body = nil
	head, err := json.Marshal(a)
	return append(append(head, '\n'), body...), err
}

func (httpCodec) Decode(_ string, data []byte, answer any) error {
	a, ok := answer.(*Answer)
	if !ok {
		return fmt.Errorf("httpdoor: %T is no *Answer", answer)
	}
	head, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return errors.New("httpdoor: an answer that is kept is cut off")
	}
	if err := json.Unmarshal(head, a); err != nil {
		return err
	}
	a.Body = body
	return nil
}
