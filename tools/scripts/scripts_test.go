// Package scripts tests scripts of the repository where they meet another machine: with programs that are older, have another
// name or fail. scripts/release.sh and scripts/binaries.sh are tested in package release.
package scripts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../.."

// programs writes programs for sh, by their names, and returns their folder.
func programs(t *testing.T, texts map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// said runs a script with variables, and returns what it said and its status.
func said(t *testing.T, env []string, script string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

const ensure = root + "/scripts/ensure.sh"

func TestARedisThatIsTooOldIsNamed(t *testing.T) {
	for version, want := range map[string]int{
		"Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1": 1, "Redis server v=7.0.0 sha=00000000:0 malloc=libc": 0,
		"Redis server v=10.2.4 sha=00000000:0 malloc=libc": 0, "Valkey server v=8.1.0 sha=00000000:0": 0, "of another kind": 0,
	} {
		server := filepath.Join(programs(t, map[string]string{"server": "echo '" + version + "'"}), "server")
		out, got := said(t, []string{"REDIS_SERVER=" + server}, ensure, "redis-server")
		if got != want || want != 0 && (!strings.Contains(out, server+" is version 6.0.16") || !strings.Contains(out, "7.0 or newer")) {
			t.Errorf("%q: status %d, want %d: %s", version, got, want, out)
		}
	}
	failing := filepath.Join(programs(t, map[string]string{"server": "exit 3"}), "server")
	if out, got := said(t, []string{"REDIS_SERVER=" + failing}, ensure, "redis-server"); got != 1 || !strings.Contains(out, failing+" --version fails") {
		t.Errorf("a server that does not start: status %d: %s", got, out)
	}
}

// Ubuntu has Chrome, or a snap, and no package called chromium. The script's PATH has nothing that could install one.
func TestAnyBrowserThatTheTestsTakeWillDo(t *testing.T) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		path := programs(t, map[string]string{name: "exit 0"})
		if out, got := said(t, []string{"PATH=" + path}, ensure, "chromium"); got != 0 || !strings.Contains(out, "chromium is there") {
			t.Errorf("%s: status %d: %s", name, got, out)
		}
	}
}

// A go that fails for one target is in the place of the real one.
func TestFuzzingGoesOnBehindATargetThatFails(t *testing.T) {
	repository := t.TempDir()
	for _, folder := range []string{"scripts", "a", "b"} {
		if err := os.Mkdir(filepath.Join(repository, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile(root + "/scripts/fuzz.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"scripts/fuzz.sh": string(script), "a/a_test.go": "package a\n\nfunc FuzzA(f *testing.F) {}\n", "b/b_test.go": "package b\n\nfunc FuzzB(f *testing.F) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(repository, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fuzz := filepath.Join(repository, "scripts", "fuzz.sh")
	env := []string{"PATH=" + programs(t, map[string]string{"go": `case "$*" in *FuzzA*) exit 1 ;; esac`}) + string(os.PathListSeparator) + os.Getenv("PATH")}
	for _, tc := range []struct {
		args   []string
		status int
		says   []string
	}{
		{[]string{"1x"}, 1, []string{"fuzz ./a FuzzA for 1x", "fuzz ./b FuzzB for 1x", "fuzz: failed: ./a:FuzzA\n"}},
		{[]string{"1x", "FuzzB"}, 0, []string{"fuzz ./b FuzzB for 1x"}},
		{[]string{"1x", "FuzzC"}, 1, []string{"there is no target FuzzC"}},
	} {
		out, got := said(t, env, fuzz, tc.args...)
		if got != tc.status {
			t.Errorf("%q: status %d, want %d: %s", tc.args, got, tc.status, out)
		}
		for _, text := range tc.says {
			if !strings.Contains(out, text) {
				t.Errorf("%q: %q is missing in: %s", tc.args, text, out)
			}
		}
	}
}

// Dependabot takes no notice of a folder that it is not told of, and fails in one that has no go.mod.
func TestDependabotKnowsEachModule(t *testing.T) {
	text, err := os.ReadFile(root + "/.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			known = append(append(known, u.Directories...), strings.Fields(u.Directory)...)
		}
	}
	files, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "-C", root, "ls-files", "go.mod", "*/go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for file := range strings.FieldsSeq(string(files)) {
		if !strings.Contains(file, "testdata/") {
			modules = append(modules, filepath.ToSlash(filepath.Join("/", filepath.Dir(file))))
		}
	}
	slices.Sort(known)
	slices.Sort(modules)
	if !slices.Equal(known, modules) {
		t.Errorf("dependabot.yml names\n%s\nand there are\n%s", fmt.Sprint(known), fmt.Sprint(modules))
	}
}
