package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A fake is a database that knows the statements of this package, and keeps no transactions apart. fence/dbtest has the real ones.
type fake struct {
	mysql bool // it counts rows as MySQL does

	mu     sync.Mutex
	fences map[string]int64
	asked  []string         // the first words of each statement, and its arguments
	faults map[string]error // by the first word of a statement
	mute   bool             // it does not tell how many rows were changed
}

func newFake() *fake { return &fake{fences: make(map[string]int64), faults: make(map[string]error)} }

func (f *fake) Connect(context.Context) (driver.Conn, error) { return conn{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

// statements returns what was asked since the last call.
func (f *fake) statements() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := strings.Join(f.asked, "\n")
	f.asked = nil
	return all
}

type conn struct{ *fake }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("fake: prepares nothing") }
func (c conn) Begin() (driver.Tx, error)           { return c, nil }
func (c conn) Commit() error                       { return nil }
func (c conn) Rollback() error                     { return nil }
func (c conn) Close() error                        { return nil }

// note notes a statement, and returns its key, if it is about one, and its first word.
func (c conn) note(query string, args []driver.NamedValue) (key, word string, err error) {
	text := strings.Join(strings.Fields(query)[:2], " ")
	for _, arg := range args {
		if b, ok := arg.Value.([]byte); ok {
			key = string(b)
			text += fmt.Sprintf(" %q", b)
		} else {
			text += fmt.Sprintf(" %v", arg.Value)
		}
	}
	c.asked = append(c.asked, text)
	word, _, _ = strings.Cut(text, " ")
	return key, word, c.faults[word]
}

func (c conn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, word, err := c.note(query, args)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	switch word {
	case "INSERT":
		n = c.raise(key, args[1].Value.(int64))
	case "DELETE":
		for k, fence := range c.fences {
			if before, ok := args[0].Value.(int64); k == key || ok && fence < before {
				delete(c.fences, k)
				n++
			}
		}
	default:
		return nil, fmt.Errorf("fake: does not know %s", word)
	}
	if c.mute {
		return driver.ResultNoRows, nil
	}
	return driver.RowsAffected(n), nil
}

func (c conn) raise(key string, fence int64) (changed int64) {
	had, there := c.fences[key]
	c.fences[key] = max(had, fence)
	switch {
	case !there:
		return 1
	case c.mysql && had < fence:
		return 2
	case !c.mysql && had <= fence:
		return 1
	}
	return 0
}

func (c conn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, _, err := c.note(query, args)
	return &rows{fence: c.fences[key]}, err
}

type rows struct {
	fence int64
	read  bool
}

func (r *rows) Columns() []string { return []string{"fence"} }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(to []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, to[0] = true, r.fence
	return nil
}

var _ sql.Result = driver.RowsAffected(0) // what docs/fences.md makes a sql.Result of
