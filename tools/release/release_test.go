// Package release tests what scripts/release.sh tags, from the side of those who install it
// and of those who import it, and the steps of the workflow that the tags start.
package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	root    = "../.."
	kit     = "github.com/lockmw/kit"
	version = "v0.999.0"
)

// released are the folders of the modules that a release has, besides the root.
var released = []string{"cmd/lockctl", "cmd/lockvet", "lockotel", "lockprom"}

// A world has commands run in a folder, with variables.
type world struct {
	dir string
	env []string
}

// try runs a command, and returns what it wrote.
func (w world) try(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), w.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w world) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := w.try(t, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkout commits a copy of this checkout, as it is on disk, to a repository of its own.
func checkout(t *testing.T) world {
	t.Helper()
	w := world{t.TempDir(), []string{
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_AUTHOR_NAME=release", "GIT_AUTHOR_EMAIL=release@example.com",
		"GIT_COMMITTER_NAME=release", "GIT_COMMITTER_EMAIL=release@example.com",
	}}
	files := world{root, []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}.
		run(t, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if name == "CHANGELOG.md" {
			text = append(text, "\n## ["+strings.TrimPrefix(version, "v")+"]\n"...)
		}
		write(t, filepath.Join(w.dir, name), text)
	}
	w.run(t, "git", "init", "-q", "-b", "main")
	w.run(t, "git", "add", "--all")
	w.run(t, "git", "commit", "-q", "-m", "a copy")
	return w
}

// proxied makes the folder of a module proxy with the modules that are tagged, and returns
// variables by which the go command takes them from there, and others from where it has them.
func proxied(t *testing.T, w world) []string {
	t.Helper()
	proxy, env := t.TempDir(), world{root, nil}
	for _, folder := range append([]string{""}, released...) {
		path, tag := kit, version
		if folder != "" {
			path, tag = kit+"/"+folder, folder+"/"+version
		}
		var archive bytes.Buffer
		if err := zip.CreateFromVCS(&archive, module.Version{Path: path, Version: version}, w.dir, tag, folder); err != nil {
			t.Fatalf("%s: %v", tag, err)
		}
		info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
		write(t, filepath.Join(at, "list"), []byte(version+"\n"))
		write(t, filepath.Join(at, version+".info"), info)
		write(t, filepath.Join(at, version+".mod"), []byte(w.run(t, "git", "show", tag+":"+filepath.ToSlash(filepath.Join(folder, "go.mod")))))
		write(t, filepath.Join(at, version+".zip"), archive.Bytes())
	}
	known := strings.Fields(env.run(t, "go", "env", "GOMODCACHE", "GOPROXY"))
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + known[0] + "/cache/download," + known[1],
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw -trimpath", "GOSUMDB=off", "GOWORK=off", "GOPRIVATE=", "GONOPROXY=",
	}
}

// A version that Go or git does not take is found before anything is committed.
func TestVersionsThatNobodyCouldUse(t *testing.T) {
	repository := checkout(t)
	const wrong = "v2.0.0 v0.3.0-rc..1 v0.3.0-. v0.3.0-rc.01"
	sections := ""
	for version := range strings.FieldsSeq(wrong) {
		sections += "## [" + strings.TrimPrefix(version, "v") + "]\n"
	}
	write(t, filepath.Join(repository.dir, "CHANGELOG.md"), []byte(sections))
	repository.run(t, "git", "commit", "-q", "-a", "-m", "sections")
	before := repository.run(t, "git", "rev-parse", "HEAD")
	for version := range strings.FieldsSeq(wrong) {
		out, err := repository.try(t, "bash", "scripts/release.sh", version)
		left := repository.run(t, "git", "status", "--porcelain") + repository.run(t, "git", "tag")
		if after := repository.run(t, "git", "rev-parse", "HEAD"); err == nil || after != before || left != "" {
			t.Errorf("%s: %v, %s; committed: %t, left: %q", version, err, out, after != before, left)
		}
		repository.run(t, "git", "reset", "-q", "--hard", strings.TrimSpace(before))
		for tag := range strings.FieldsSeq(repository.run(t, "git", "tag")) {
			repository.run(t, "git", "tag", "-d", tag)
		}
	}
}

func TestARelease(t *testing.T) {
	repository := checkout(t)
	for wrong, args := range map[string][]string{"a version is like": {"scripts/release.sh", "1.2"}, "has no section": {"scripts/release.sh", "v0.998.0"}} {
		if out, err := repository.try(t, "bash", args...); err == nil || !strings.Contains(out, wrong) {
			t.Errorf("%q: %v, %s; want %q", args, err, out, wrong)
		}
	}
	repository.run(t, "git", "switch", "-q", "-c", "mine")
	if out, err := repository.try(t, "bash", "scripts/release.sh", version); err == nil || !strings.Contains(out, "on the branch main, not on mine") {
		t.Errorf("on another branch: %v, %s", err, out)
	}
	repository.run(t, "git", "switch", "-q", "main")
	printed := repository.run(t, "bash", "scripts/release.sh", version)
	t.Log(printed)
	if out, err := repository.try(t, "bash", "scripts/release.sh", version); err == nil || !strings.Contains(out, "a tag "+version+" already") {
		t.Errorf("once more: %v, %s", err, out)
	}
	t.Run("the date", func(t *testing.T) {
		heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `\] - \d{4}-\d\d-\d\d$`)
		before, after := repository.run(t, "git", "show", version+"~:CHANGELOG.md"), repository.run(t, "git", "show", version+":CHANGELOG.md")
		if heading.MatchString(before) || !heading.MatchString(after) || strings.Count(before, "\n") != strings.Count(after, "\n") {
			t.Errorf("no date was put behind the heading, and nothing else changed, in\n%s", after)
		}
	})
	t.Run("the pushes", func(t *testing.T) { carryOut(t, repository, printed) })
	env := proxied(t, repository)

	t.Run("the checkout", func(t *testing.T) {
		for file := range strings.FieldsSeq(repository.run(t, "git", "ls-files", "go.mod", "*/go.mod")) {
			module := world{filepath.Join(repository.dir, filepath.Dir(file)), nil}
			if out, err := module.try(t, "go", "list", "-deps", "-test", "./..."); err != nil && !strings.Contains(file, "testdata") {
				t.Errorf("%s: %v\n%s", file, err, out)
			}
		}
	})

	t.Run("go install", func(t *testing.T) {
		bin := t.TempDir()
		w := world{t.TempDir(), append(slices.Clone(env), "GOBIN="+bin)}
		w.run(t, "go", "install", kit+"/cmd/lockctl@"+version)
		if out := w.run(t, filepath.Join(bin, "lockctl"), "--version"); !strings.Contains(out, version) {
			t.Errorf("lockctl --version says %q", out)
		}
		built := regexp.MustCompile(`(?m)^\sdep\s` + regexp.QuoteMeta(kit) + `\s(\S+)`).FindStringSubmatch(w.run(t, "go", "version", "-m", filepath.Join(bin, "lockctl")))
		if built == nil || built[1] != version {
			t.Errorf("lockctl is built with %q of the root", built)
		}
	})

	t.Run("the binaries", func(t *testing.T) { // of one command for one system: all of them take minutes
		w := world{repository.dir, append(slices.Clone(env), "PROGRAMS=lockctl", "SYSTEMS="+runtime.GOOS+"/"+runtime.GOARCH)}
		out, again := filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "dist")
		w.run(t, "bash", "scripts/binaries.sh", version, out)
		w.run(t, "bash", "scripts/binaries.sh", version, again)
		if said, err := w.try(t, "bash", "scripts/binaries.sh", version, out); err == nil || !strings.Contains(said, "is not empty") {
			t.Errorf("once more: %v, %s", err, said)
		}
		sums, second := w.run(t, "cat", filepath.Join(out, "SHA256SUMS")), w.run(t, "cat", filepath.Join(again, "SHA256SUMS"))
		archive := fmt.Sprintf("lockctl_%s_%s_%s.tar.gz", strings.TrimPrefix(version, "v"), runtime.GOOS, runtime.GOARCH)
		packed, err := os.ReadFile(filepath.Join(out, archive))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(packed), archive); sums != want || second != want {
			t.Errorf("the checksums are\n%s\nand the second time\n%s\nwant\n%s", sums, second, want)
		}
		dir := world{t.TempDir(), nil}
		dir.run(t, "tar", "-xzf", filepath.Join(out, archive))
		if said := dir.run(t, "./lockctl", "--version"); !strings.Contains(said, version) {
			t.Errorf("lockctl says %q", said)
		}
	})

	service := func(t *testing.T, imports ...string) (requires string) {
		t.Helper()
		w := world{t.TempDir(), env}
		var main strings.Builder
		main.WriteString("package main\n\n")
		for _, path := range imports {
			fmt.Fprintf(&main, "import _ %q\n", path)
		}
		main.WriteString("\nfunc main() {}\n")
		write(t, filepath.Join(w.dir, "main.go"), []byte(main.String()))
		w.run(t, "go", "mod", "init", "example.com/service")
		for _, path := range imports {
			w.run(t, "go", "get", path+"@"+version)
		}
		w.run(t, "go", "mod", "tidy")
		w.run(t, "go", "list", "-deps", "./...")
		return w.run(t, "cat", "go.mod", "go.sum")
	}
	extras := []string{"go.opentelemetry.io/", "github.com/prometheus/", "github.com/spf13/"}

	t.Run("a service with a door", func(t *testing.T) {
		requires := service(t, kit+"/lockmw", kit+"/ginlock")
		for _, unwanted := range extras {
			for line := range strings.Lines(requires) {
				if strings.Contains(line, unwanted) {
					t.Errorf("the service has to do with %s", line)
				}
			}
		}
	})

	t.Run("a service with metrics", func(t *testing.T) {
		requires := service(t, kit+"/lockmw", kit+"/lockprom", kit+"/lockotel")
		for _, wanted := range extras[:2] {
			if !strings.Contains(requires, wanted) {
				t.Errorf("the service has nothing of %s", wanted)
			}
		}
	})
}
