package wire

import (
	"io"
	"net"
)

// inputLeast is how many bytes an input has room for at least.
const inputLeast = 4 << 10

// An input has the bytes that have arrived and were not handed out.
type input struct {
	bytes  []byte
	cutter cutter
	ends   []int // where the complete replies in bytes end
}

// fill reads once, and notes which replies are complete.
func (in *input) fill(from net.Conn) (n int, err error) {
	if free := cap(in.bytes) - len(in.bytes); free < inputLeast/4 {
		in.bytes = append(make([]byte, 0, max(2*cap(in.bytes), inputLeast)), in.bytes...)
	}
	n, err = from.Read(in.bytes[len(in.bytes):cap(in.bytes)])
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	in.bytes = in.bytes[:len(in.bytes)+n]
	begin := 0 // what was complete before is handed out
	for begin < len(in.bytes) {
		length, bad := in.cutter.next(in.bytes[begin:])
		if bad != nil {
			return n, bad
		}
		if length == 0 {
			break
		}
		begin += length
		in.ends = append(in.ends, begin)
	}
	return n, err
}

// forget forgets the first n bytes, which were handed out.
func (in *input) forget(n int) {
	rest := in.bytes[n:]
	switch {
	case cap(in.bytes) > bufferMost && len(rest) < inputLeast:
		in.bytes = append(make([]byte, 0, inputLeast), rest...)
	default:
		in.bytes = in.bytes[:copy(in.bytes, rest)]
	}
	in.ends = in.ends[:0]
}
