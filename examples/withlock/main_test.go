package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryAdditionCountsUnderTheLock(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := `^with the lock  200 of 200 additions count
without it     [ \d]{2}\d of 200
$`
	if !regexp.MustCompile(want).Match(out.Bytes()) {
		t.Errorf("output:\n%swant:\n%s", &out, want)
	}
	t.Logf("\n%s", &out)
}

func TestEndIsNoCount(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := run(ctx, &out); !errors.Is(err, lockmw.ErrNotAcquired) || out.Len() > 0 {
		t.Errorf("error = %v, output %q; want %v and none", err, &out, lockmw.ErrNotAcquired)
	}
}
