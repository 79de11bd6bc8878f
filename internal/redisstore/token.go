package redisstore

import (
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/lockmw/kit/internal/store"
)

// A token says which Locker made it, and what its caller noted:
//
//	<locker>.<random UUID>
//	<locker>.<random UUID>.<note>
//
// The locker part tells a script which channel hears of a grant; it is the Locker's
// name, a hyphen, and random letters and digits, by which two Lockers of one name differ. The UUID has 122 random
// bits. A note costs no command of its own, and is there wherever the token is. Names and
// notes are percent-encoded as in a URL, and more characters are than a URL needs: scripts cut tokens, values and
// messages at dots, colons, blanks and equals signs.

const (
	digitsOfName = 10 // each has five random bits
	uuidLen      = 36 // as text
)

// newName returns the locker part of the tokens of a Locker called name.
func newName(name string) string {
	return escape(name) + "-" + strings.ToLower(rand.Text()[:digitsOfName])
}

// newToken returns a token of a locker. Of a long note it has the beginning.
func newToken(locker, note string) string {
	var room [uuidLen]byte
	id, text := uuid.New(), room[:0]
	for i, group := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, group)
	}
	var token strings.Builder
	token.Grow(len(locker) + 1 + uuidLen + len(note) + 1)
	token.WriteString(locker)
	token.WriteByte('.')
	token.Write(text)
	if note != "" {
		token.WriteByte('.')
		token.WriteString(escape(store.Beginning(note, store.MostOfNote)))
	}
	return token.String()
}

// readToken returns what a token says of its locker and of its caller. Both are empty for one
// that is not ours.
func readToken(token string) (instance, note string) {
	locker, rest, _ := strings.Cut(token, ".")
	id, text, _ := strings.Cut(rest, ".")
	if len(id) != uuidLen {
		return "", ""
	}
	instance = instanceOf(locker)
	if instance == "" {
		return "", ""
	}
	return instance, unescape(text)
}

// digitsAlone is how long the locker part of a token was when Lockers had no names: it was hexadecimal digits alone.
// Such lockers may run beside this one during an upgrade.
const digitsAlone = 16

// instanceOf returns what people call the locker of a token; empty for none of ours.
func instanceOf(locker string) string {
	if len(locker) == digitsAlone && strings.Trim(locker, "0123456789abcdef") == "" {
		return locker
	}
	if at := len(locker) - digitsOfName; at < 1 || locker[at-1] != '-' {
		return ""
	}
	return unescape(locker)
}

// escape writes text without the characters that mean something in tokens and in what is
// made of them.
func escape(text string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '/', c == '@', c == '+':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// unescape reads what escape writes, for people to see. Another program may have written
// it: what is no text becomes U+FFFD, and so does what is not printed, such as
// what moves a terminal's cursor.
func unescape(text string) string {
	if read, err := url.PathUnescape(text); err == nil {
		text = read
	}
	return store.Printable(text)
}
