package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lockmw/kit/cmd/lockvet/rules"
)

// A user calls the program with packages, go vet calls it with a file: here it is built, and called by both.
func TestTheProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "lockvet")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	run := func(dir, name string, args ...string) (out string, code int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		if dir != "" {
			cmd.Env = append(os.Environ(), "GOWORK=off") // that of the program is not for the service
		}
		text, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		return string(text), code
	}
	if out, code := run("", "go", "build", "-o", program, "."); code != 0 {
		t.Fatal(out)
	}
	const service = "rules/testdata"
	for _, tc := range []struct {
		args []string
		code int
		says string // "": nothing
	}{
		{[]string{program, "./fence"}, 1, "a *sql.DB is no transaction"},
		{[]string{"go", "vet", "-vettool=" + program, "./fence"}, 1, "a *sql.DB is no transaction"},
		{[]string{program, "-lockfence=false", "./fence"}, 0, ""},
		{[]string{program, "-json", "./fence"}, 0, `"lockfence"`},
		{[]string{program, "./handover"}, 1, "line 33 is reached without lock.Release"}, // of what another package says
		{[]string{program, "./nowhere"}, 1, "nowhere"},
		{[]string{program, "help"}, 0, "lockrelease"},
		{[]string{program, "-h"}, 0, "lockrelease"},
		{[]string{program, "help", "lockctx"}, 0, "context.WithoutCancel(lockCtx)"},
	} {
		out, code := run(service, tc.args[0], tc.args[1:]...)
		if code != tc.code || !strings.Contains(out, tc.says) || tc.says == "" && out != "" {
			t.Errorf("%q: status %d, want %d and %q:\n%s", tc.args[1:], code, tc.code, tc.says, out)
		}
	}
	out, _ := run(service, program, "help")
	for _, rule := range rules.All {
		if !strings.Contains(out, rule.Name) {
			t.Errorf("help does not list %s", rule.Name)
		}
	}
}
