package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A ledger is a file in which each thing that happens to a payment is a line: a word, the payment's id, and more. A write of one line is not mixed with
// others. Beside it is a folder with a file for each payment, which is locked while somebody is at work on it.
type ledger struct{ path string }

// The words.
const (
	paid    = "paid"
	overlap = "overlap" // work began, and some was under way
	died    = "died"    // with the step at which the process died by itself
)

// prepare makes the folder.
func (l ledger) prepare() error { return os.MkdirAll(l.folder(), 0o700) }

func (l ledger) folder() string { return l.path + ".work" }

// note writes a line.
func (l ledger) note(word, id, more string) error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, word, id, more)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// enter notes that work on a payment begins where some is under way, in whatever process. The work is over when leave is called, or when its process has
// died: then the system takes the file's lock back.
func (l ledger) enter(id string) (leave func(), err error) {
	sum := sha256.Sum256([]byte(id))
	f, err := os.OpenFile(filepath.Join(l.folder(), hex.EncodeToString(sum[:])), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = l.note(overlap, id, "")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// A history is what the ledger says of a payment.
type history struct {
	paid, overlaps int
	died           []string // the steps at which processes died by themselves
}

// read returns what the ledger says of each payment, by its id.
func (l ledger) read() (map[string]history, error) {
	text, err := os.ReadFile(l.path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	all := make(map[string]history)
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, more, _ := strings.Cut(rest, " ")
		h := all[id]
		switch word {
		case paid:
			h.paid++
		case overlap:
			h.overlaps++
		case died:
			h.died = append(h.died, more)
		default:
			return nil, fmt.Errorf("the ledger has the line %q", line)
		}
		all[id] = h
	}
	return all, nil
}
