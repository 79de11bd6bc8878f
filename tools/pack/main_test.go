package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// packed packs a program that is as old as told and has that mode, and returns the archive and the list of checksums.
func packed(t *testing.T, age time.Duration, mode os.FileMode) (archive, sums []byte) {
	t.Helper()
	folder, program := t.TempDir(), filepath.Join(t.TempDir(), "lockctl")
	if err := os.WriteFile(program, []byte("a program"), mode); err != nil {
		t.Fatal(err)
	}
	made := time.Now().Add(-age)
	if err := os.Chtimes(program, made, made); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{folder, "z.tar.gz=" + program, "a.tar.gz=" + program}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return read("z.tar.gz"), read("SHA256SUMS")
}

func TestTheSameProgramMakesTheSameBytes(t *testing.T) {
	first, sums := packed(t, 0, 0o700)
	second, _ := packed(t, 25*time.Hour, 0o600)
	if !bytes.Equal(first, second) {
		t.Error("a program that is older, or has another mode, makes another archive")
	}
	if want := fmt.Sprintf("%[1]x  a.tar.gz\n%[1]x  z.tar.gz\n", sha256.Sum256(first)); string(sums) != want {
		t.Errorf("SHA256SUMS has\n%swant\n%s", sums, want)
	}
}

func TestAnArchiveHasTheProgramAndNothingOfWhoPackedIt(t *testing.T) {
	archive, _ := packed(t, 0, 0o600)
	decompressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(decompressed)
	header, err := files.Next()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(files)
	if string(text) != "a program" || err != nil || header.Name != "lockctl" || header.Mode != 0o755 {
		t.Errorf("%v; %s with mode %o has %q", err, header.Name, header.Mode, text)
	}
	if header.ModTime.Unix() != 0 || header.Uid != 0 || header.Gid != 0 || header.Uname+header.Gname != "" || !decompressed.ModTime.IsZero() {
		t.Errorf("it says who has packed it, or when: %+v, %v", header, decompressed.ModTime)
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the program: %v", err)
	}
}

func TestWhatIsWrong(t *testing.T) {
	folder := t.TempDir()
	for _, args := range [][]string{nil, {folder}, {folder, "a.tar.gz"}, {folder, "a.tar.gz=" + filepath.Join(folder, "none")}} {
		if err := run(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("%v is left, %v", files, err)
	}
}
