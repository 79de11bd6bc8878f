package keyfunc_test

import (
	"testing"

	"github.com/lockmw/kit/keyfunc"
)

// typical is a request with the values of a busy shop, without the cost of maps.
var typical = tuple{"berlin", "0f8fad5b-d9cb-469f-a165-70867728950e", "ann@example.com"}

var speeds = []struct {
	name   string
	f      keyfunc.Func
	allocs float64
}{
	{"Param", keyfunc.Param("b"), 1},
	{"Params", keyfunc.Params(), 1},
	{"Template", keyfunc.MustParse("order:{param.a}:{param.b}:{query.c}"), 1},
	{"TemplateFiltered", keyfunc.MustParse("order:{param.a|lower}:{param.b|uuid}:{query.c|lower}"), 1},
	{"Join", keyfunc.Join(keyfunc.Const("order"), keyfunc.Param("a"), keyfunc.Param("b")), 3},
	{"Route", keyfunc.Route(), 1},
	{"Hash", keyfunc.Hash(keyfunc.Param("b")), 3},
	{"Secret", keyfunc.Secret([]byte("pepper"), keyfunc.Param("b")), 12},
}

func TestKeysCostFewAllocations(t *testing.T) {
	var r keyfunc.Request = typical
	for _, tc := range speeds {
		got := testing.AllocsPerRun(100, func() { _, _ = tc.f(r) })
		if got > tc.allocs {
			t.Errorf("%s: %v allocations, want at most %v", tc.name, got, tc.allocs)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	var r keyfunc.Request = typical
	for _, bc := range speeds {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bc.f(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
