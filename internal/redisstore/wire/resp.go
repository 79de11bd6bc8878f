package wire

import (
	"bytes"
	"errors"
	"strconv"
)

// AppendCommand appends the head of a command with n arguments, the name included.
func AppendCommand(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, '*'), int64(n), 10), "\r\n"...)
}

// AppendString appends an argument of a command.
func AppendString(b []byte, s string) []byte {
	b = append(strconv.AppendInt(append(b, '$'), int64(len(s)), 10), "\r\n"...)
	return append(append(b, s...), "\r\n"...)
}

// AppendParts appends an argument that consists of several parts.
func AppendParts(b []byte, parts ...string) []byte {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	b = append(strconv.AppendInt(append(b, '$'), int64(n), 10), "\r\n"...)
	for _, part := range parts {
		b = append(b, part...)
	}
	return append(b, "\r\n"...)
}

// AppendInt appends a number as an argument of a command.
func AppendInt(b []byte, n int64) []byte {
	var digits [20]byte
	return AppendString(b, string(strconv.AppendInt(digits[:0], n, 10)))
}

// A Refusal is an error that the server replied with.
type Refusal string

// Error returns the server's text.
func (r Refusal) Error() string { return string(r) }

// RedisError marks the error as a server's, in the way of go-redis.
func (Refusal) RedisError() {}

// ErrProtocol is what the server sent that is no reply of RESP2.
var ErrProtocol = errors.New("the server's reply does not follow the protocol")

const (
	lineMost  = 64 << 10  // bytes of a line
	bulkMost  = 512 << 20 // bytes of a string; Redis has the same bound
	arrayMost = 1 << 20   // values of an array
	depthMost = 64        // arrays within arrays
)

// A cutter finds where a reply ends. The reply may arrive in pieces: next is called
// with all that has arrived of it, again and again, and goes on where it stopped.
type cutter struct {
	at   int // where the next value of the reply begins
	more int // values that are still to come, besides the next
}

// next returns the length of the reply that b begins with, or 0 while that is not
// complete.
func (c *cutter) next(b []byte) (int, error) {
	for {
		kind, n, end, err := header(b, c.at)
		if err != nil || end == 0 {
			return 0, err
		}
		switch {
		case kind == '$' && n >= 0:
			if end += n + len("\r\n"); end > len(b) {
				return 0, nil
			}
			if b[end-2] != '\r' || b[end-1] != '\n' {
				return 0, ErrProtocol
			}
		case kind == '*' && n > 0:
			if c.more += n; c.more > arrayMost {
				return 0, ErrProtocol
			}
		}
		c.at = end
		if c.more == 0 {
			c.at = 0
			return end, nil
		}
		c.more--
	}
}

// header reads the first line of the value at b[at:]: its kind, the length that it
// tells if the value is a string or an array, and where the line ends. That is 0
// while the line is not complete.
func header(b []byte, at int) (kind byte, n, end int, err error) {
	if at >= len(b) {
		return 0, 0, 0, nil
	}
	kind = b[at]
	most := lineMost
	switch kind {
	case '+', '-', ':':
	case '$':
		most = bulkMost
	case '*':
		most = arrayMost
	default:
		return 0, 0, 0, ErrProtocol
	}
	line := bytes.IndexByte(b[at:min(len(b), at+lineMost)], '\n')
	switch {
	case line < 0 && len(b)-at < lineMost:
		return kind, 0, 0, nil
	case line < 2 || b[at+line-1] != '\r':
		return 0, 0, 0, ErrProtocol
	}
	end = at + line + 1
	if kind == '$' || kind == '*' {
		n, err = strconv.Atoi(string(b[at+1 : end-2]))
		if err != nil || n < -1 || n > most {
			return 0, 0, 0, ErrProtocol
		}
	}
	return kind, n, end, nil
}

// Bulk reads the string that b begins with, and returns what is behind it. It costs no
// memory. There is none where b begins with anything else.
func Bulk(b []byte) (value, rest []byte, ok bool) {
	kind, n, end, err := header(b, 0)
	if err != nil || end == 0 || kind != '$' || n < 0 || len(b)-end < n+len("\r\n") {
		return nil, nil, false
	}
	return b[end : end+n], b[end+n+len("\r\n"):], true
}

// Parse reads the first of the replies in b, which are complete, and returns what is
// behind it. A reply is an int64, a string, nil, a Refusal, or a []any of these.
func Parse(b []byte) (reply any, rest []byte, err error) { return parse(b, depthMost) }

func parse(b []byte, depth int) (reply any, rest []byte, err error) {
	kind, n, end, err := header(b, 0)
	if err != nil || end == 0 || depth == 0 {
		return nil, nil, ErrProtocol
	}
	line, rest := b[1:end-2], b[end:]
	switch kind {
	case '+':
		return string(line), rest, nil
	case '-':
		return Refusal(line), rest, nil
	case ':':
		number, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil {
			return nil, nil, ErrProtocol
		}
		return number, rest, nil
	case '$':
		if n < 0 {
			return nil, rest, nil
		}
		if len(rest) < n+len("\r\n") {
			return nil, nil, ErrProtocol
		}
		return string(rest[:n]), rest[n+len("\r\n"):], nil
	}
	if n < 0 {
		return nil, rest, nil
	}
	list := make([]any, 0, min(n, len(rest)))
	for range n {
		if reply, rest, err = parse(rest, depth-1); err != nil {
			return nil, nil, err
		}
		list = append(list, reply)
	}
	return list, rest, nil
}
