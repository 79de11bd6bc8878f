package tagged

import (
	"testing"

	"github.com/lockmw/kit/locktest"
)

func TestLocksAreGenerated(t *testing.T) { locktest.Generated(t) }
