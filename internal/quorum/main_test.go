package quorum_test

import (
	"testing"

	"github.com/lockmw/kit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
