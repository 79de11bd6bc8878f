package lockgen_test

import (
	"runtime"
	"testing"

	"github.com/lockmw/kit/internal/lockgen"
	"github.com/lockmw/kit/internal/test/slow"
)

func TestFilesOfOtherBuildsAreGeneratedInThose(t *testing.T) {
	slow.Test(t)
	u := newUser(t, `
-- orders.go --
package user

import "context"

type Stock struct{}

//lockmw:lock {id}
func Pay(ctx context.Context, id string) error { return ctx.Err() }
-- special.go --
//go:build special

package user

import "context"

//lockmw:lock {id|lower}
func Special(ctx context.Context, id string) error { return ctx.Err() }
-- never.go --
package user
`)
	note := "special.go:7:1: this directive locks nothing: this build leaves the file out (//go:build special); run lockgen in a build that has it, with GOOS=… or GOFLAGS=-tags=…"
	u.lockgen("", nil, "orders_lockgen.go")
	u.check("", nil, note)
	t.Run("special", func(t *testing.T) {
		t.Setenv("GOFLAGS", "-tags=special")
		in := &user{t, u.dir}
		in.lockgen("", nil, "special_lockgen.go")
		in.goes("", "vet", "./...")
		in.check("", nil)
	})
	u.goes("", "vet", "./...")
	u.check("", nil)
	u.lockgen("", nil) // what the other build has written stays
	u.remove("special.go")
	u.check("", nil, "special_lockgen.go:1:1: left over: no directive asks for this file any more; run lockgen")
	here := "stock_" + runtime.GOOS + ".go"
	u.write(here, "package user\n\nimport \"context\"\n\n//lockmw:lock {id}\nfunc (Stock) Do(ctx context.Context, id string) error { return ctx.Err() }\n")
	u.check("", nil, here+":5:1: Do is in other builds than its type Stock: a decorator could not be in both; move the method, or the type")
}

func TestAPackageWithCgoIsGenerated(t *testing.T) {
	slow.Test(t)
	u := newUser(t, `
-- c.go --
package user

// static int twice(int n) { return 2 * n; }
import "C"

import "context"

type Stock struct{ n C.int }

//lockmw:lock {twice(n)}:{id}:{number(s)}
func (s *Stock) Move(ctx context.Context, n int, id string) (int, error) { return int(s.n), ctx.Err() }

func twice(n int) int { return int(C.twice(C.int(n))) }

func number(s *Stock) int { return int(s.n) }
-- n.go --
package user
`)
	t.Setenv("CGO_ENABLED", "1")
	u.lockgen("", nil, "c_lockgen.go")
	u.goes("", "vet", ".")
	u.check("", nil)
	t.Run("without cgo", func(t *testing.T) {
		t.Setenv("CGO_ENABLED", "0")
		(&user{t, u.dir}).goes("", "list", "-export", ".")
		done, err := lockgen.Generate(t.Context(), lockgen.Request{Dir: u.dir}) // -race needs cgo
		if err != nil || len(done.Changed)+len(done.Problems)+len(done.Notes) > 0 {
			t.Errorf("what is for cgo does not stay: %+v, %v", done, err)
		}
	})
	u.change("c.go", "{number(s)}", "{s.n}")
	u.check("", nil, "c.go:10:32: the type of s.n is not known; it may be one of C: write a function of the package that makes one of Go of it")
}
