package lockmw_test

import (
	"log/slog"
	"testing"

	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/lockmw"
)

// A program may make names of data, although it should not. What is remembered by name is
// bounded: holds, lines of the log, Stats.
func TestNamesWithoutNumberTakeNoMemory(t *testing.T) {
	slow.Test(t)
	doortest.NamesTakeNoMemory(t, nil, lockmw.WithLogger(slog.New(slog.DiscardHandler)))
	doortest.NamesTakeNoMemory(t, nil, lockmw.WithLogger(slog.New(slog.NewTextHandler(nowhere{}, nil))))
}

// nowhere is a file that nobody keeps.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
