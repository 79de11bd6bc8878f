package keyfunc

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"
)

const (
	// maxValue bounds one value, in bytes. Without a bound a client could
	// make us escape and hash a megabyte per request.
	maxValue = 8 << 10

	// maxReadable is the longest key, in bytes, that is written in full.
	maxReadable = 200

	// headSize is how many bytes of a longer key stay readable, before the
	// cut moves back to the start of a character. It is large enough that a
	// hashed key, head + '#' + 64 digits, is always longer than maxReadable:
	// so no key that is written in full ever equals a hashed one.
	headSize = 140

	// bufferSize is where keys are built, on the stack. Longer ones are
	// built on the heap.
	bufferSize = 256

	// separator stands between values that nothing else separates.
	separator = ':'

	// none is the rune that occurs in no value.
	none rune = -1
)

// appendEscaped appends s to dst and writes as %XX what a key must not hold,
// and every occurrence of the runes sep and stop, by which a reader tells
// where the value ends.
//
// The result is valid UTF-8 and a '%' in it always begins an escape. Read rune
// by rune, it gives back s; a raw sep or stop is never part of it.
func appendEscaped(dst []byte, s string, sep, stop rune) []byte {
	copied := 0
	for i := 0; i < len(s); {
		r, size := rune(s[i]), 1
		if ' ' <= r && r < '{' && r != '%' && r != sep && r != stop {
			i++ // nearly all of nearly every value
			continue
		}
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		if r == sep || r == stop || reserved(r, size) {
			dst = append(dst, s[copied:i]...)
			// All bytes of a rune are escaped, not only the first:
			// what is left of a broken rune would not be UTF-8.
			for _, b := range []byte(s[i : i+size]) {
				dst = append(dst, '%', upperHex[b>>4], upperHex[b&0xf])
			}
			copied = i + size
		}
		i += size
	}
	return append(dst, s[copied:]...)
}

const upperHex = "0123456789ABCDEF"

// reserved reports whether a rune of that size must never stand raw in a key.
//
// It asks for control characters, not for unprintable ones. What is printable
// depends on the Unicode version of the Go release, so two instances of one
// service, built with different releases, could lock under different keys.
func reserved(r rune, size int) bool {
	switch {
	case r == '%', r == '{', r == '}':
		return true
	case r < ' ', 0x7f <= r && r < 0xa0:
		return true // what unicode.IsControl names; this is inlined
	}
	return r == utf8.RuneError && size == 1 // U+FFFD itself has three bytes
}

// finish makes a key of escaped text. Every Func of this package ends here.
func finish(key []byte) string {
	if len(key) <= maxReadable {
		return string(key)
	}
	var buf [bufferSize]byte
	out := append(buf[:0], key[:cutBefore(key, headSize)]...)
	out = append(out, '#')
	sum := sha256.Sum256(key)
	return string(hex.AppendEncode(out, sum[:]))
}

// cutBefore returns the last position up to n at which key can be cut without
// breaking a rune or an escape. It moves back by at most three bytes.
func cutBefore(key []byte, n int) int {
	for !utf8.RuneStart(key[n]) {
		n--
	}
	switch {
	case key[n-1] == '%':
		return n - 1
	case key[n-2] == '%':
		return n - 2
	}
	return n
}
