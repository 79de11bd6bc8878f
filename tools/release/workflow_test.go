package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A workflow is what the tests read of release.yml.
type workflow struct {
	Jobs map[string]struct {
		Needs, Uses, Environment string
		Steps                    []struct{ Name, Run string }
	}
}

func readWorkflow(t *testing.T) workflow {
	t.Helper()
	text, err := os.ReadFile(root + "/.github/workflows/release.yml")
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// step returns the script of a step of the job binaries.
func (w workflow) step(t *testing.T, name string) string {
	t.Helper()
	for _, step := range w.Jobs["binaries"].Steps {
		if step.Name == name && step.Run != "" {
			return step.Run
		}
	}
	t.Fatalf("there is no step %q that runs something", name)
	return ""
}

func TestNothingIsReleasedThatIsNotChecked(t *testing.T) {
	jobs := readWorkflow(t).Jobs
	if check := jobs["check"]; check.Uses != "./.github/workflows/check.yml" {
		t.Errorf("the job check uses %q", check.Uses)
	}
	for name, job := range jobs {
		if name != "check" && (job.Needs != "check" || job.Environment != "release") {
			t.Errorf("the job %s needs %q, in the environment %q", name, job.Needs, job.Environment)
		}
	}
}

func TestOnlyATagOnMainIsReleased(t *testing.T) {
	check := readWorkflow(t).step(t, "See that it is a tag on main")
	repository := world{t.TempDir(), []string{
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull, "GITHUB_REF_NAME=" + version,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}}
	commit := func(text string) string {
		repository.run(t, "git", "commit", "-q", "--allow-empty", "-m", text)
		return strings.TrimSpace(repository.run(t, "git", "rev-parse", "HEAD"))
	}
	repository.run(t, "git", "init", "-q", "-b", "main")
	first, second := commit("first"), commit("second")
	repository.run(t, "git", "update-ref", "refs/remotes/origin/main", second)
	repository.run(t, "git", "switch", "-q", "--detach", first)
	beside := commit("beside")
	for _, tc := range []struct {
		name, at, kind string
		passes         bool
	}{
		{"the newest commit of main", second, "tag", true},
		{"an older one", first, "tag", true},
		{"one that is not on main", beside, "tag", false},
		{"a branch", second, "branch", false},
	} {
		repository.run(t, "git", "switch", "-q", "--detach", tc.at)
		w := world{repository.dir, append([]string{"GITHUB_REF_TYPE=" + tc.kind}, repository.env...)}
		out, err := w.try(t, "bash", "-e", "-c", check)
		if (err == nil) != tc.passes || !tc.passes && !strings.Contains(out, "::error::"+version+" is not") {
			t.Errorf("%s: %v, %s", tc.name, err, out)
		}
	}
}

// A gh that prints its arguments is in the place of GitHub's.
func TestACandidateIsNotTheLatestRelease(t *testing.T) {
	release := readWorkflow(t).step(t, "Release")
	w := world{t.TempDir(), nil}
	write(t, filepath.Join(w.dir, "dist", "SHA256SUMS"), nil)
	gh := filepath.Join(w.dir, "gh")
	write(t, gh, []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"))
	if err := os.Chmod(gh, 0o700); err != nil {
		t.Fatal(err)
	}
	w.env = []string{"PATH=" + w.dir + string(os.PathListSeparator) + os.Getenv("PATH")}
	for tag, candidate := range map[string]bool{"v1.2.3": false, "v1.2.3-rc.1": true} {
		w := world{w.dir, append([]string{"GITHUB_REF_NAME=" + tag}, w.env...)}
		got := w.run(t, "bash", "-e", "-c", release)
		if !strings.HasPrefix(got, "<release><create><"+tag+">") || !strings.HasSuffix(got, "<dist/SHA256SUMS>") || strings.Contains(got, "<>") {
			t.Errorf("%s: gh %s", tag, got)
		}
		if strings.Contains(got, "<--prerelease>") != candidate {
			t.Errorf("%s: gh %s; it is a candidate: %t", tag, got, candidate)
		}
	}
}
