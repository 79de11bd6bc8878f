package lockmw

import (
	"fmt"
	"testing"
	"time"
)

// A program that makes a name for each request pays no more memory.
func TestMemoryOfRefusalsIsBounded(t *testing.T) {
	var r refusalLog
	for i := range 10 * mostRefusals {
		r.admits(refusalKind{name: fmt.Sprint(i), code: CodeBusy}, time.Unix(int64(i), 0)) // a second apart, so that each is logged
	}
	if len(r.last) != mostRefusals {
		t.Errorf("%d refusals are remembered, want %d", len(r.last), mostRefusals)
	}
}
