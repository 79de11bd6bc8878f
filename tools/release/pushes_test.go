package release

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// carryOut makes the pushes that release.sh has printed, to a server of its own. GitHub starts no workflow for tags of which more
// than three come at once. And whatever is there after each push can be installed: the module proxies remember for a while that a version is not there.
func carryOut(t *testing.T, repository world, printed string) {
	t.Helper()
	server := world{t.TempDir(), repository.env}
	server.run(t, "git", "init", "-q", "--bare", "-b", "main")
	repository.run(t, "git", "remote", "add", "origin", server.dir)
	var there []string
	for i, push := range regexp.MustCompile(`(?m)^ +git (push .*)$`).FindAllStringSubmatch(printed, -1) {
		repository.run(t, "git", strings.Fields(push[1])...)
		before := len(there)
		there = strings.Fields(server.run(t, "git", "tag"))
		if came := len(there) - before; came < 1 || came > 3 {
			t.Errorf("git %s brings %d tags, want one to three", push[1], came)
		}
		for _, tag := range there {
			for _, missing := range requiredBut(t, server, tag, there) {
				t.Errorf("after git %s, %s requires %s, which is not there", push[1], tag, missing)
			}
		}
		// The root's tag starts the workflow, which installs these.
		for _, built := range []string{version, "cmd/lockctl/" + version, "cmd/lockvet/" + version} {
			if i == 0 && !slices.Contains(there, built) {
				t.Errorf("git %s comes first, and does not bring %s", push[1], built)
			}
		}
	}
	if len(there) != 1+len(released) {
		t.Errorf("in the end there are %q", there)
	}
	if got, want := server.run(t, "git", "rev-parse", "main"), repository.run(t, "git", "rev-parse", version+"^{commit}"); got != want {
		t.Errorf("main is at %s, want %s", got, want)
	}
}

// requiredBut returns the tags of those modules of ours that the module of a tag requires, and that are not there.
func requiredBut(t *testing.T, server world, tag string, there []string) (missing []string) {
	t.Helper()
	file := strings.TrimSuffix(tag, version) + "go.mod"
	module, err := modfile.Parse(file, []byte(server.run(t, "git", "show", tag+":"+file)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range module.Require {
		folder, ours := strings.CutPrefix(r.Mod.Path, kit)
		if !ours {
			continue
		}
		if wanted := strings.TrimPrefix(filepath.ToSlash(filepath.Join(folder, r.Mod.Version)), "/"); !slices.Contains(there, wanted) {
			missing = append(missing, wanted)
		}
	}
	return missing
}
