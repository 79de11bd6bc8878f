package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/process"
)

var (
	errPortTaken = errors.New("the port is taken")
	errEnded     = errors.New("the process ended")
	errNotReady  = errors.New("no answer in time")
)

// awaitReady asks addr until the process p itself answers there. Another server
// may have taken the port first; its answers do not count.
func awaitReady(addr string, p *process.Process, timeout time.Duration) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		err := probe(addr, p.PID())
		if err == nil {
			return nil
		}
		select {
		case <-p.Gone:
			return errEnded
		case <-deadline.C:
			return fmt.Errorf("%w: %w", errNotReady, err)
		case <-poll.C:
		}
	}
}

// probe returns nil if the process pid serves commands at addr. A server that
// wants a password cannot be asked for its pid and is taken at its word.
func probe(addr string, pid int) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\nINFO server\r\n"); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	pong, err := readReply(r)
	if err != nil {
		return err
	}
	if strings.HasPrefix(pong, "-LOADING") {
		return errors.New(pong)
	}
	info, err := readReply(r)
	if err != nil {
		return err
	}
	if strings.HasPrefix(info, "-") || strings.Contains(info, fmt.Sprintf("\nprocess_id:%d\r\n", pid)) {
		return nil
	}
	return errPortTaken
}

// readReply reads a status or error line (returned with its "+" or "-") or the
// content of a bulk string.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	size, isBulk := strings.CutPrefix(line, "$")
	if !isBulk {
		return line, nil
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return "", fmt.Errorf("unexpected reply %q", line)
	}
	body := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(r, body); err != nil {
		return "", err
	}
	return string(body), nil
}
