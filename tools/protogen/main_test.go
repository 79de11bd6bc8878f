package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository returns a folder with a .proto file below each root.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i, root := range roots {
		text := fmt.Sprintf("syntax = \"proto3\";\npackage p%[1]d;\noption go_package = \"%[2]s/p%[1]d\";\nmessage M { string s = 1; }\n"+
			"// S is a service.\nservice S { rpc Do(M) returns (stream M); }\n", i, module)
		put(t, filepath.Join(dir, root, fmt.Sprintf("p%d/p.proto", i)), text)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasWrittenIsCurrent(t *testing.T) {
	dir := repository(t)
	if err := write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), dir); err != nil {
		t.Error(err)
	}
	for file, want := range map[string]string{"p0/p.pb.go": "type M struct", "p1/p_grpc.pb.go": "// S is a service."} {
		if code, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(code), want) {
			t.Errorf("%s: %v, or without %q", file, err, want)
		}
	}
}

func TestWhatIsNotCurrentIsNamed(t *testing.T) {
	dir := repository(t)
	if err := write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "p0/p.pb.go"), "package p0 // edited\n")
	put(t, filepath.Join(dir, "p9/p.pb.go"), "package p9\n")
	if err := os.Remove(filepath.Join(dir, "p1/p_grpc.pb.go")); err != nil {
		t.Fatal(err)
	}
	err := check(t.Context(), dir)
	if err == nil {
		t.Fatal("nothing is found")
	}
	for _, want := range []string{"p0/p.pb.go is not", "p1/p_grpc.pb.go is not", "p9/p.pb.go belongs to no"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 3 {
		t.Errorf("%d findings, want 3: %v", n, err)
	}
}

func TestMistakesOfAProtoFileAreNamed(t *testing.T) {
	dir := repository(t)
	put(t, filepath.Join(dir, roots[0], "bad.proto"), "syntax = \"proto3\";\nmessage M { Unknown u = 1; }\n")
	if err := write(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "bad.proto:2") {
		t.Errorf("error = %v, want one of bad.proto, line 2", err)
	}
}
