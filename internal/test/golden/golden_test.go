package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A recorder is a test that notes what it is told.
type recorder struct {
	testing.TB

	said strings.Builder
}

func (*recorder) Helper()                      {}
func (r *recorder) Errorf(f string, of ...any) { fmt.Fprintf(&r.said, f, of...) }

func TestADifferenceIsToldFromItsFirstLineOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.golden")
	if err := os.WriteFile(file, []byte("same\nold\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	same, other := recorder{TB: t}, recorder{TB: t}
	Check(&same, file, "same\nold\n")
	if got := same.said.String(); got != "" {
		t.Errorf("of what is equal: %q", got)
	}
	Check(&other, file, "same\nnew\n")
	if got, want := other.said.String(), "got\nnew\n\nwant\nold\n"; !strings.HasSuffix(got, want) {
		t.Errorf("of what differs: %q, want the end %q", got, want)
	}
}

func TestUpdateWritesTheFile(t *testing.T) {
	*update = true
	defer func() { *update = false }()
	file := filepath.Join(t.TempDir(), "x.golden")
	Check(t, file, "new\n")
	if got, err := os.ReadFile(file); err != nil || string(got) != "new\n" {
		t.Errorf("the file has %q, %v", got, err)
	}
}
