package lockadmin

import (
	"container/list"
	"sync"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A table has the locks as they were last read from Redis. Each change gets a number, so
// that every page is told what has changed since it was last told, however long ago that
// was: a slow browser misses steps in between, and nothing waits for it.
type table struct {
	own      string // this process's instance
	mostGone int    // how many locks that are gone are kept for pages that are behind

	mu      sync.Mutex
	rows    map[string]*row
	order   *list.List // of *row, in the order of their last changes, those of locks that are gone included
	gone    int        // how many of those there are
	version uint64     // of the last change
	dropped uint64     // a page that was told less than this must begin anew
	ids     uint64
	scan    uint64 // number of the present one
	status  status
	changed chan struct{} // closed at the next change
}

// A row is a lock in the table.
type row struct {
	lock    lock
	gone    bool
	scan    uint64 // that last saw it
	version uint64 // of its last change
	changed uint64 // of its last change that was no mere renewal
	place   *list.Element
}

// mostGone is the table's, for pages that are behind by minutes.
const mostGone = 20_000

// A status tells how current the table is.
type status struct {
	State string `json:"state"`          // reading, live, unreachable or closed
	AsOf  int64  `json:"asOf,omitzero"`  // when the last complete reading began
	Every int64  `json:"every,omitzero"` // milliseconds from one reading to the next
	Limit int    `json:"limit"`
	Cut   bool   `json:"cut,omitzero"` // there are more locks than the limit
}

func newTable(own string, limit int) *table {
	return &table{
		own: own, mostGone: mostGone, rows: make(map[string]*row), order: list.New(),
		status: status{State: "reading", Limit: limit}, changed: make(chan struct{}),
	}
}

// begin starts a reading of all locks.
func (t *table) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan++
}

// put notes how a lock is now.
func (t *table) put(info lockmw.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := lockOf(info, t.own, time.Now())
	r := t.rows[info.Key]
	if !inUse(info) {
		if r != nil {
			t.remove(r)
		}
		return
	}
	if r == nil {
		t.ids++
		now.ID = t.ids
		r = &row{lock: now}
		r.place = t.order.PushBack(r)
		t.rows[info.Key] = r
		t.touch(r, changed)
	} else if differs := r.lock.update(now); differs != same {
		t.touch(r, differs)
	}
	r.scan = t.scan
}

// touch gives the row a new version.
func (t *table) touch(r *row, what change) {
	t.version++
	r.version = t.version
	if what == changed {
		r.changed = t.version
	}
	t.order.MoveToBack(r.place)
}

// remove takes a lock that is gone out of the table.
func (t *table) remove(r *row) {
	delete(t.rows, r.lock.Key)
	r.gone = true
	t.gone++
	t.touch(r, changed)
	if t.gone <= t.mostGone {
		return
	}
	for e := t.order.Front(); t.gone > t.mostGone/2; {
		next := e.Next()
		if old := rowAt(e); old.gone {
			t.order.Remove(e)
			t.gone--
			t.dropped = old.version
		}
		e = next
	}
}

// publish tells the pages what has been put.
func (t *table) publish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell()
}

func (t *table) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// finish ends a reading: what it has not seen is gone.
func (t *table) finish(began time.Time, every time.Duration, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		if r.scan != t.scan {
			t.remove(r)
		}
	}
	t.status.State, t.status.AsOf, t.status.Every, t.status.Cut = "live", began.UnixMilli(), every.Milliseconds(), cut
	t.tell()
}

// fail ends a reading that has failed. What was read stays, and grows old.
func (t *table) fail(state string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.State = state
	t.tell()
}

// news is closed when there is something that a page may not have been told yet.
func (t *table) news() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// A message is what a page is told at once.
type message struct {
	Now    int64       `json:"now"`
	Reset  bool        `json:"reset,omitzero"` // forget all locks; Rows are the first of those that there are
	Rows   []lock      `json:"rows,omitempty"`
	Until  [][]int64   `json:"until,omitempty"` // of locks that were renewed: their ID, the ends of their holders' TTLs
	Gone   []uint64    `json:"gone,omitempty"`
	More   bool        `json:"more,omitzero"` // the next message follows at once
	Status *status     `json:"status,omitempty"`
	Past   *[]incident `json:"past,omitempty"`

	Settings *[]setting `json:"settings,omitempty"` // all live settings, where they are others than before
	Shadow   *[]string  `json:"shadow,omitempty"`   // the names whose policies are in shadow, where they are others than before
}

// atOnce is how many changes one message has at most.
const atOnce = 500

// A cursor is how much of the table a page has been told. The zero cursor is nothing.
type cursor struct {
	whole uint64 // all changes up to this version
	at    uint64 // and of the later ones, those up to this
}

// since returns what has changed since the cursor, and the cursor after that.
func (t *table) since(c cursor) (message, cursor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	status := t.status
	m := message{Now: time.Now().UnixMilli(), Status: &status}
	if c.at < t.dropped {
		c = cursor{}
	}
	m.Reset = c.at == 0
	e := t.after(c.at)
	for n := 0; e != nil && n < atOnce; e = e.Next() {
		r := rowAt(e)
		c.at = r.version
		switch {
		case r.gone && m.Reset:
			continue
		case r.gone:
			m.Gone = append(m.Gone, r.lock.ID)
		case r.changed > c.whole:
			m.Rows = append(m.Rows, r.lock)
		default:
			m.Until = append(m.Until, r.lock.until())
		}
		n++
	}
	m.More = e != nil
	if !m.More {
		c.whole = c.at
	}
	return m, c
}

// after returns the first of the changes after a version.
func (t *table) after(version uint64) *list.Element {
	e := t.order.Back()
	if e == nil || rowAt(e).version <= version {
		return nil
	}
	for prev := e.Prev(); prev != nil && rowAt(prev).version > version; prev = prev.Prev() {
		e = prev
	}
	return e
}

// rowAt returns what an element of order has.
func rowAt(e *list.Element) *row { return e.Value.(*row) }
