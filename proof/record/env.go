package record

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedEnv names the environment variable that replays a run.
const SeedEnv = "PROOF_SEED"

// Seed returns the seed of a run: that of SeedEnv, or a new one, which it logs.
// What is replayed is what the test chooses, not the scheduling of goroutines,
// processes and servers.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	return SeedOr(tb, rand.Uint64()>>1)
}

// SeedOr is Seed for a run that has the seed s unless SeedEnv names another.
func SeedOr(tb testing.TB, s uint64) uint64 {
	tb.Helper()
	if text := os.Getenv(SeedEnv); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("%s: %v", SeedEnv, err)
		}
	}
	tb.Logf("%s=%d", SeedEnv, s)
	return s
}

// Number returns the number that an environment variable gives, or the one to be
// taken without it.
func Number(tb testing.TB, env string, otherwise int) int {
	tb.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatalf("%s: %v", env, err)
	}
	return n
}
