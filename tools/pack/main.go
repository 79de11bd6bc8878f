// Command pack makes the archives of a release, and the list of their checksums:
//
//	pack FOLDER ARCHIVE=PROGRAM...
//
// Each archive is a .tar.gz in FOLDER with one program. It says nothing of who has packed it, where and when, so
// the same program makes the same bytes. The tar and gzip of macOS write other bytes than those of Linux, and have
// no options for that. FOLDER/SHA256SUMS has the checksums, as sha256sum and shasum read them.
//
// scripts/binaries.sh runs this file outside of any module, so it imports only the standard library.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: pack FOLDER and, for each program, ARCHIVE=PROGRAM")
	}
	folder, programs := args[0], args[1:]
	slices.Sort(programs) // the checksums stand in the order of the archives' names
	var sums strings.Builder
	for _, one := range programs {
		name, program, ok := strings.Cut(one, "=")
		if !ok {
			return fmt.Errorf("%q is not like ARCHIVE=PROGRAM", one)
		}
		archive, err := pack(program)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), archive, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name)
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// pack returns an archive of a program.
func pack(program string) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	err = archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: filepath.Base(program), Size: int64(len(text)), Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	})
	if err == nil {
		_, err = archive.Write(text)
	}
	err = errors.Join(err, archive.Close(), compressed.Close())
	return out.Bytes(), err
}
