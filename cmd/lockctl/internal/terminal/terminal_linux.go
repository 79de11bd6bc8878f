// Package terminal gives tests a terminal: what is written to one end comes out of the
// other, as between a person and a program.
package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Open opens a terminal, which is closed when the test ends.
func Open(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// Until reads what a terminal shows until it shows the texts, one behind the other, or its
// program has ended.
func Until(person *os.File, texts ...string) string {
	var all bytes.Buffer
	b := make([]byte, 1024)
	for !shows(all.String(), texts) {
		n, err := person.Read(b)
		all.Write(b[:n])
		if err != nil {
			break
		}
	}
	return all.String()
}

func shows(shown string, texts []string) (all bool) {
	for _, text := range texts {
		if _, shown, all = strings.Cut(shown, text); !all {
			return false
		}
	}
	return true
}
