package fence_test

import (
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
