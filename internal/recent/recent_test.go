package recent

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheNewestAreKept(t *testing.T) {
	var l Log
	start := time.Now()
	l.Happened(Incident{At: start, Kind: "lost", Key: "first"})
	for n := range 3 * Most {
		l.Refused(Incident{At: start.Add(time.Duration(n+1) * time.Second), Kind: "refused", Key: fmt.Sprint(n)})
	}
	all, version := l.Newest()
	if len(all) != Most+1 || version != 3*Most+1 || version != l.Version() {
		t.Fatalf("%d incidents, version %d; want %d, %d", len(all), version, Most+1, 3*Most+1)
	}
	for n, i := range all[:Most] {
		if want := fmt.Sprint(3*Most - 1 - n); i.Key != want {
			t.Errorf("incident %d is about %q, want %q", n, i.Key, want)
		}
	}
	if last := all[Most]; last.Key != "first" {
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

func TestKeepingARefusalAllocatesNothing(t *testing.T) {
	var l Log
	if n := testing.AllocsPerRun(100, func() { l.Refused(Incident{Key: "k", Reason: "LOCK_BUSY"}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
