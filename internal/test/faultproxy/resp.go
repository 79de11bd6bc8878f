package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxDepth bounds the nesting of a reply; real ones stay below ten.
const maxDepth = 64

var errProtocol = errors.New("faultproxy: not RESP")

// frame is one request, one reply or, of a connection that no longer speaks
// RESP, some bytes.
type frame struct {
	bytes []byte
	kind  byte // the type of the value, behind its attributes; 0 of bytes and inline requests
}

// readRequest reads one request, which is an array of bulk strings or an inline
// line.
func readRequest(r *bufio.Reader) (frame, error) {
	first, err := r.Peek(1)
	if err != nil {
		return frame{}, err
	}
	if first[0] == '*' {
		return readReply(r)
	}
	line, err := readLine(r, nil)
	return frame{bytes: line}, err
}

// readReply reads one value of RESP2 or RESP3 with everything inside of it.
func readReply(r *bufio.Reader) (frame, error) {
	bytes, kind, err := readValue(r, nil, maxDepth)
	return frame{bytes: bytes, kind: kind}, err
}

// readChunk reads what has arrived, at least one byte.
func readChunk(r *bufio.Reader) (frame, error) {
	if _, err := r.Peek(1); err != nil {
		return frame{}, err
	}
	chunk := make([]byte, r.Buffered())
	_, err := io.ReadFull(r, chunk)
	return frame{bytes: chunk}, err
}

// readValue appends one value to buf and returns its type.
func readValue(r *bufio.Reader, buf []byte, depth int) ([]byte, byte, error) {
	if depth == 0 {
		return buf, 0, fmt.Errorf("%w: nested too deeply", errProtocol)
	}
	start := len(buf)
	buf, err := readLine(r, buf)
	if err != nil {
		return buf, 0, err
	}
	line := buf[start : len(buf)-len("\r\n")]
	if len(line) == 0 {
		return buf, 0, fmt.Errorf("%w: empty line", errProtocol)
	}
	kind, head := line[0], line[1:]
	switch kind {
	case '+', '-', ':', '_', '#', ',', '(': // simple string, error, integer, null, boolean, double, big number
		return buf, kind, nil
	case '$', '!', '=': // bulk string, bulk error, verbatim string
		buf, err = readBulk(r, buf, head)
		return buf, kind, err
	case '*', '~', '>': // array, set, push
		buf, err = readElements(r, buf, head, 1, depth)
		return buf, kind, err
	case '%': // map
		buf, err = readElements(r, buf, head, 2, depth)
		return buf, kind, err
	case '|': // attributes, which stand before the value they belong to
		if buf, err = readElements(r, buf, head, 2, depth); err != nil {
			return buf, 0, err
		}
		buf, kind, err = readValue(r, buf, depth-1)
		return buf, kind, unexpected(err, true)
	}
	return buf, 0, fmt.Errorf("%w: type %q", errProtocol, kind)
}

// readLine appends a line with its CRLF to buf.
func readLine(r *bufio.Reader, buf []byte) ([]byte, error) {
	start := len(buf)
	for {
		part, err := r.ReadSlice('\n')
		buf = append(buf, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return buf, unexpected(err, len(buf) > start)
		}
		if line := buf[start:]; len(line) >= len("\r\n") && line[len(line)-2] == '\r' {
			return buf, nil
		}
		return buf, fmt.Errorf("%w: line %q without CRLF", errProtocol, buf[start:])
	}
}

// readBulk appends the content that head announces, with its CRLF.
func readBulk(r *bufio.Reader, buf, head []byte) ([]byte, error) {
	n, err := readLength(head)
	if err != nil || n < 0 {
		return buf, err
	}
	// Not make and ReadFull: the length is the peer's word, and memory for it
	// is only taken as the bytes arrive.
	content := bytes.NewBuffer(buf)
	if _, err := io.CopyN(content, r, int64(n)+int64(len("\r\n"))); err != nil {
		return content.Bytes(), unexpected(err, true)
	}
	if !bytes.HasSuffix(content.Bytes(), []byte("\r\n")) {
		return content.Bytes(), fmt.Errorf("%w: bulk string without CRLF", errProtocol)
	}
	return content.Bytes(), nil
}

// readElements appends the elements that head announces, each of so many values.
func readElements(r *bufio.Reader, buf, head []byte, values, depth int) ([]byte, error) {
	n, err := readLength(head)
	if err != nil {
		return buf, err
	}
	for range max(n, 0) {
		for range values {
			if buf, _, err = readValue(r, buf, depth-1); err != nil {
				return buf, unexpected(err, true)
			}
		}
	}
	return buf, nil
}

// readLength reads the length of a string or collection, -1 for none.
func readLength(head []byte) (int, error) {
	n, err := strconv.ParseInt(string(head), 10, 32)
	if err != nil || n < -1 {
		return 0, fmt.Errorf("%w: length %q", errProtocol, head)
	}
	return int(n), nil
}

// unexpected keeps io.EOF for a stream that ends between two values.
func unexpected(err error, inside bool) error {
	if inside && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// elements returns the strings that a request, or a collection such as a push,
// begins with, up to limit of them or the first element that is not a string.
func elements(f []byte, limit int) [][]byte {
	_, rest, found := bytes.Cut(f, []byte("\r\n"))
	var out [][]byte
	for found && len(out) < limit && len(rest) > 0 {
		var head []byte
		head, rest, found = bytes.Cut(rest, []byte("\r\n"))
		if !found || len(head) == 0 || head[0] != '$' {
			break
		}
		n, err := readLength(head[1:])
		if err != nil || n < 0 || n+len("\r\n") > len(rest) {
			break
		}
		out, rest = append(out, rest[:n]), rest[n+len("\r\n"):]
	}
	return out
}
