// Package shells presses TAB in real shells. It has nothing but tests, and is a package of
// its own since they want shells that not every machine has: scripts/ensure.sh installs them.
package shells

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockmw/kit/cmd/lockctl/internal/terminal"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// prompt is what each shell shows when it waits for a line.
const prompt = "ready> "

// A shell is how one is started with lockctl's completion, and a folder as its home.
var shells = []struct {
	name string
	args []string
	rc   string // the file in its home that it reads first
	says string // what stands there
}{
	{"bash", []string{"--noprofile", "--rcfile", "rc", "-i"}, "rc", `
		PS1='ready> '
		. /usr/share/bash-completion/bash_completion
		. <(lockctl completion bash)
	`},
	{"zsh", []string{"-d", "-i"}, ".zshrc", `
		PS1='ready> '
		setopt extended_glob ksh_glob magic_equal_subst
		autoload -U compinit && compinit -u -D
		. <(lockctl completion zsh)
	`},
	{"fish", []string{"-i"}, ".config/fish/config.fish", `
		function fish_prompt; echo 'ready> '; end
		set -g fish_greeting
		lockctl completion fish | source
	`},
}

// hostile is what clients may have as a key, or other programs in Redis, to have a shell
// make a file: %[1]s is its name.
var hostile = []string{
	"$(touch %[1]s)", "`touch %[1]s`", ";touch %[1]s;", "&touch %[1]s&", ">%[1]s", "<(touch %[1]s)", "=(touch %[1]s)", "';touch %[1]s;'",
	`";touch %[1]s;"`, `"$(touch %[1]s)"`, `$'\n';touch %[1]s;`, `'$(touch %[1]s)'`, `\\$(touch %[1]s)`, "\ntouch %[1]s\n", "\n:a[$(touch %[1]s)]",
	"\t$(touch %[1]s)", "(touch %[1]s)", "*(e:touch %[1]s:)", "/*(e:'touch %[1]s':)", "a[$(touch %[1]s)]", "$((a[$(touch %[1]s)]))", "!!$(touch %[1]s)",
	"~$(touch %[1]s)", "#\r touch %[1]s\r", "--$(touch %[1]s)", "\u00a0;touch %[1]s;\u2028touch %[1]s\u0085", "_activeHelp_ $(touch %[1]s)",
}

// Clients of a service choose its keys, and two keys that begin alike reach the command line
// before anybody has pressed Enter.
func TestNothingOfAKeyIsRun(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "program"), "..").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write(t, filepath.Join(bin, "lockctl"), "#!/bin/sh\n"+`echo "$@" >>"$HOME/asked"; exec program "$@"`)
	server := redistest.Real(t)
	client := server.Client(t)
	keys := []string{"every:_-./@%+,é7"}
	for i, h := range hostile {
		for _, end := range []string{"a", "b"} {
			keys = append(keys, fmt.Sprintf("h%02d:", i)+fmt.Sprintf(h, made(i))+end)
		}
	}
	for _, key := range keys {
		if err := client.Set(t.Context(), "lock:{"+key+"}", "mine", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	intents := []string{"once:_-./@%+,é7"}
	for i, h := range hostile {
		intents = append(intents, fmt.Sprintf("u%02d:", i)+fmt.Sprintf(h, made(i)))
	}
	for _, key := range intents {
		if err := client.Set(t.Context(), "lock:{"+key+"}:answer", "begun 7 1700000000000000 f 1 1 json ", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, shell := range shells {
		t.Run(shell.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			rc := filepath.Join(home, shell.rc)
			if err := os.MkdirAll(filepath.Dir(rc), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, rc, shell.says)
			// Where this is not there, fish makes it at its first start, in the background and for longer than the test takes.
			if err := os.MkdirAll(filepath.Join(home, ".local/share/fish/generated_completions"), 0o700); err != nil {
				t.Fatal(err)
			}
			s := start(t, home, []string{
				"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "TERM=xterm", "LANG=C.UTF-8", "REDIS_URL=redis://" + server.Addr(),
			}, shell.name, shell.args...)
			// runs types a command, once more where the machine stood still for so long that Redis has not answered it.
			runs := func(typed string) (shown string) {
				for range 5 {
					if shown = s.types(typed + "\r"); !strings.Contains(shown, "there is no answer") {
						break
					}
				}
				return shown
			}
			for _, typed := range []string{"every", "every:_-./@%+,"} {
				if shown := runs("lockctl show " + typed + "\t"); !strings.Contains(shown, "key      every:_-./@%+,é7") {
					t.Errorf("a key with all signs that keys are offered with is not completed: %q", shown)
				}
			}
			for typed, want := range map[string]string{ // a blank is behind the key
				"uncertain once\tx": "given were 2", "resolve once\t8 again": "no work 8 of once:_-./@%+,é7 is uncertain",
			} {
				if shown := runs("lockctl " + typed); !strings.Contains(shown, want) {
					t.Errorf("the key of uncertain work is not completed: %q", shown)
				}
			}
			if shown := s.types("lockctl uncertain u\t\t"); strings.Contains(shown, "made") {
				t.Errorf("the key of uncertain work was offered: %q", shown)
			}
			for i, h := range hostile {
				shown := s.types(fmt.Sprintf("lockctl show h%02d:\t\t", i))
				if _, err := os.Stat(filepath.Join(home, made(i))); err == nil {
					t.Errorf("%q: it ran", h)
				}
				if strings.Contains(shown, made(i)) {
					t.Errorf("%q: it was offered: %q", h, shown)
				}
				asked, err := os.ReadFile(filepath.Join(home, "asked"))
				if want := fmt.Sprintf("__complete show h%02d:", i); err != nil || !strings.Contains(string(asked), want) {
					t.Fatalf("%q: lockctl was not asked what to offer: %v", h, err)
				}
			}
		})
	}
}

// write writes a file that may be a program.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// made is the file that the i-th of hostile makes.
func made(i int) string { return fmt.Sprintf("made%02d", i) }

// A session is a shell at a terminal.
type session struct {
	person *os.File
	turns  int
}

// start starts a shell whose home is its folder. It is killed when the test ends, or lasts.
func start(t *testing.T, home string, env []string, name string, args ...string) *session {
	t.Helper()
	person, there := terminal.Open(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = home, env
	c.Stdin, c.Stdout, c.Stderr = there, there, there
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := c.Start(); err != nil {
		t.Fatalf("%v; scripts/ensure.sh %s installs it", err, name)
	}
	_ = there.Close() // so that the terminal ends with the shell
	t.Cleanup(func() {
		cancel()
		_ = c.Wait()
	})
	terminal.Until(person, prompt)
	return &session{person: person}
}

// types types a text, takes away what has become of the line, and returns what was shown
// when the shell has done all of it. Then it has a new prompt: only behind that are keys the
// shell's, and not the terminal's, for which Ctrl-U takes away what no shell has seen.
func (s *session) types(text string) string {
	s.turns++
	_, _ = fmt.Fprintf(s.person, "%s\x15echo do''ne%d.\r", text, s.turns) // Until notices that the shell has ended
	return terminal.Until(s.person, fmt.Sprintf("done%d.", s.turns), prompt)
}
