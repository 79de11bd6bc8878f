package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lockmw/kit/cmd/lockctl/internal/terminal"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

func TestColourIsForTerminals(t *testing.T) {
	server := redistest.Shared(t)
	for name, tc := range map[string]struct {
		env  []string
		want bool
	}{
		"a terminal": {nil, true},
		"NO_COLOR":   {[]string{"NO_COLOR=1"}, false},
		"NO_COLOR=":  {[]string{"NO_COLOR="}, true}, // as if it were not set
		"TERM=dumb":  {[]string{"TERM=dumb"}, false},
		"json":       {[]string{"FORMAT=json"}, false},
	} {
		person, there := terminal.Open(t)
		output := "text"
		if name == "json" {
			output = "json"
		}
		p := newProgram(t, append(tc.env, "REDIS_URL=redis://"+server.Addr()), "doctor", "-o", output)
		p.Stdout = there
		p.begin(t)
		shown := terminal.Until(person, "this Redis")
		if got := p.ended(t); got.status != 0 || strings.Contains(shown, "\x1b[") != tc.want {
			t.Errorf("%s: %+v, shown %q", name, got, shown)
		}
	}
}

func TestReleaseAsksAtATerminal(t *testing.T) {
	server := redistest.Real(t)
	l := locker(t, server.Client(t))
	take(t, l, "order:42", "", lockmw.Policy{})
	for _, tc := range []struct {
		types  string
		status status
	}{
		{"\n", statusUnconfirmed},
		{"n\n", statusUnconfirmed},
		{"\x04", statusUnconfirmed}, // Ctrl-D
		{"\x03", statusInterrupted}, // Ctrl-C
		{"Yes\n", 0},
	} {
		person, there := terminal.Open(t)
		p := newProgram(t, []string{"REDIS_URL=redis://" + server.Addr()}, "release", "order:42")
		p.Stdin, p.Stderr = there, there
		p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
		p.begin(t)
		shown := terminal.Until(person, "[y/N] ")
		if _, err := person.WriteString(tc.types); err != nil {
			t.Fatal(err)
		}
		got := p.ended(t)
		info, err := l.Inspect(t.Context(), "order:42")
		if err != nil {
			t.Fatal(err)
		}
		if got.status != tc.status || !strings.Contains(shown, "web-7-") || info.Held != (tc.status != 0) {
			t.Errorf("%q: status %d, held %v; shown %q", tc.types, got.status, info.Held, shown)
		}
	}
}

// Each list takes the place of the one before.
func TestWatchFillsATerminal(t *testing.T) {
	server := redistest.Shared(t)
	person, there := terminal.Open(t)
	p := newProgram(t, []string{"NO_COLOR=1", "REDIS_URL=redis://" + server.Addr()}, "watch", "none:", "--every", "100ms")
	p.Stdout = there
	p.begin(t)
	for range 2 {
		if shown := terminal.Until(person, "no locks"); !strings.Contains(shown, "\x1b[H\x1b[2J") {
			t.Errorf("shown %q", shown)
		}
	}
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := p.ended(t); got.status != 0 {
		t.Errorf("%+v", got)
	}
}
