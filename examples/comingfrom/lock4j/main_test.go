package main

import (
	"testing"

	"github.com/lockmw/kit/examples/comingfrom/internal/besidetest"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestBothVersionsExcludeEachOther(t *testing.T) { besidetest.Apart(t, old, ours) }

func TestEachIsRefusedWhileTheOtherIsAtWork(t *testing.T) {
	t.Run("before", func(t *testing.T) { besidetest.Refused(t, ours, old) })
	t.Run("after", func(t *testing.T) { besidetest.Refused(t, old, ours) })
}

// With another name both are at work at the same time: without this, the test of exclusion could not fail.
func TestAnotherNameIsNoticed(t *testing.T) { besidetest.Together(t, old, besidetest.Renamed(ours)) }
