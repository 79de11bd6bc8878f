package main

import (
	"testing"

	"github.com/lockmw/kit/examples/comingfrom/internal/besidetest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/locktest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestBothVersionsSideBySide(t *testing.T) { besidetest.Pair(t, old, ours) }

func TestTheDecoratorIsUpToDate(t *testing.T) { locktest.Generated(t) }
