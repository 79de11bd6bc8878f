//go:build unix

package lockmw_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Nobody waits for a file that is a pipe, or that hangs.
func TestASettingsFileThatIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(testenv.Journal)
	began := time.Now()
	l := testenv.Open(t, redistest.Embedded(t).Client(t), log.Option(), lockmw.WithSettings(lockmw.SettingsFile(path)))
	if took := time.Since(began); took > 900*time.Millisecond && !stoodStill(began) {
		t.Errorf("New takes %v", took)
	}
	await.Until(t, "it is told", func() bool { return log.Count("settings cannot be read", "regular file") == 1 })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	await.Within(t, 10*time.Second, "what is wrong now is told, too", func() bool { return log.Count("settings cannot be read", "no such file") == 1 })
	mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
}
