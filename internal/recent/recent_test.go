package recent

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestTheNewestAreKept(t *testing.T) {
	var l Log
	start := time.Now()
	l.Happened(Incident{At: start, Kind: "lost", Key: "first"})
	for n := range 3 * mostKept {
		l.Refused(Incident{At: start.Add(time.Duration(n+1) * time.Second), Kind: "refused", Key: fmt.Sprint(n)})
	}
	all, version := l.Newest()
	if len(all) != mostKept+1 || version != 3*mostKept+1 || version != l.Version() {
		t.Fatalf("%d incidents, version %d; want %d, %d", len(all), version, mostKept+1, 3*mostKept+1)
	}
	for n, i := range all[:mostKept] {
		if want := fmt.Sprint(3*mostKept - 1 - n); i.Key != want {
			t.Errorf("incident %d is about %q, want %q", n, i.Key, want)
		}
	}
	if last := all[mostKept]; last.Key != "first" {
		t.Errorf("the refusals have pushed out what was lost: %+v", last)
	}
}

func TestALongKeyIsCut(t *testing.T) {
	var l Log
	l.Refused(Incident{Key: strings.Repeat("k", 1<<20)})
	if all, _ := l.Newest(); len(all[0].Key) > mostKey+3 {
		t.Errorf("%d bytes of a key are kept", len(all[0].Key))
	}
}

// A key may be a part of a body or an address: none of the rest stays.
func TestNoRequestStays(t *testing.T) {
	var l Log
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const request = 1 << 20
	before := heap()
	for range mostKept {
		l.Refused(Incident{Key: strings.Repeat("k", request)[:10]})
	}
	if kept := heap() - before; kept > mostKept*request/5 {
		t.Errorf("%d MB are kept of %d requests", kept>>20, mostKept)
	}
	runtime.KeepAlive(&l)
}

func TestKeepingARefusalAllocatesNothing(t *testing.T) {
	var l Log
	for range mostKept {
		l.Refused(Incident{Key: "k"})
	}
	if n := testing.AllocsPerRun(100, func() { l.Refused(Incident{Key: "k", Reason: "LOCK_BUSY"}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
