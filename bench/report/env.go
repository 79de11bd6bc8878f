package report

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// Env is what the figures depend on. It names no host.
type Env struct {
	CPU      string
	Cores    int
	System   string
	Go       string
	Redis    string
	Commit   string
	Load     string   // average of the machine before the run, over a minute
	Versions []string // of the libraries
}

// ReadEnv returns this program's and this machine's. What cannot be found out
// is "unknown".
func ReadEnv(redis string) Env {
	e := Env{
		CPU: cpu(), Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Redis: redis, Commit: commit(), Load: loadAverage(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return e
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/redis/go-redis/v9", "github.com/bsm/redislock", "github.com/go-redsync/redsync/v4", "github.com/redis/rueidis":
			e.Versions = append(e.Versions, m.Path+" "+m.Version)
		}
	}
	return e
}

const unknown = "unknown"

func cpu() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // Linux
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	out, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output() // macOS
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		return text
	}
	return unknown
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg") // Linux
	if fields := strings.Fields(string(text)); len(fields) > 0 {
		return fields[0]
	}
	return unknown
}

func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return unknown
	}
	id := strings.TrimSpace(string(out))
	// What this program itself writes does not make a change.
	changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)bench/results").Output()
	if err != nil || len(bytes.TrimSpace(changes)) > 0 {
		id += ", with changes"
	}
	return id
}

func (e Env) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "- machine: %s, %d cores, shared by the libraries and Redis; %s; load average before the run: %s\n",
		e.CPU, e.Cores, e.System, e.Load)
	fmt.Fprintf(b, "- %s, Redis %s, commit %s\n", e.Go, e.Redis, e.Commit)
	fmt.Fprintf(b, "- %s\n\n", strings.Join(e.Versions, ", "))
}
