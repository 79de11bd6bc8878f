package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/record"
)

// counted finds what the demo's ledger counts, with the lock and without.
var counted = regexp.MustCompile(`(?m)^(with the lock|without it) +(\d+) of (\d+) .* (\d+)$`)

// The program of `make demo`: clients pay at four processes through a door, and
// the ledger's read-modify-write has no lock of its own.
func TestDemoCountsEveryPayment(t *testing.T) {
	runs, clients, rounds := record.Pick(1, 10), record.Pick(100, 1000), 10
	program := filepath.Join(t.TempDir(), "orders")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join(root, "examples/orders") // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := redistest.Real(t)
	want := clients * rounds
	exact, short, control := 0, 0, make([]int, 0, runs)
	for range runs {
		cmd := exec.Command(program, "-clients", strconv.Itoa(clients), "-rounds", strconv.Itoa(rounds))
		cmd.Env = append(os.Environ(), "REDIS_ADDR="+s.Addr())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		for _, line := range counted.FindAllStringSubmatch(string(out), -1) {
			n, _ := strconv.Atoi(line[2])
			of, _ := strconv.Atoi(line[3])
			switch {
			case of != want:
				t.Errorf("%d payments were made, want %d", of, want)
			case line[1] == "without it":
				control = append(control, n)
				if n < want {
					short++
				}
			case n == want && line[4] == "0":
				exact++
			default:
				t.Errorf("%s", line[0])
			}
		}
	}
	record.Add(t, record.Row{
		Check: 1, Name: "payments through a door, 4 processes",
		Goal:   fmt.Sprintf("exactly %d in %d of %d runs; the control without lock below", want, runs, runs),
		Figure: fmt.Sprintf("exact in %d of %d; the control counted %d", exact, runs, control),
		Met:    exact == runs && short == runs && !t.Failed(),
		Note:   fmt.Sprintf("make demo: %d concurrent clients, %d payments each, a real Redis", clients, rounds),
	})
}
