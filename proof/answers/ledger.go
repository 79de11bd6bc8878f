package main

import (
	"fmt"
	"os"
	"strings"
)

// A ledger is a file in which each payment is a line. A write of one line is not mixed with others.
type ledger struct{ path string }

// note writes a payment down.
func (l ledger) note(key string) error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, key)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// count returns how many payments each key has.
func (l ledger) count() (map[string]int, error) {
	text, err := os.ReadFile(l.path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	paid := make(map[string]int)
	for key := range strings.FieldsSeq(string(text)) {
		paid[key]++
	}
	return paid, nil
}
