package lockgen_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/lockgen"
	"github.com/lockmw/kit/internal/test/slow"
)

// A user is somebody's module outside of this repository.
type user struct {
	*testing.T

	dir string
}

// newUser makes a module of files, which are written as in user.files. Instead of this
// repository it uses a small copy of what generated code calls, so that nothing large is
// compiled for each test.
func newUser(t *testing.T, files string) *user {
	t.Helper()
	u := &user{t, t.TempDir()}
	u.write("go.mod", u.requires("example.com/user"))
	u.files(kit)
	u.files(files)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	return u
}

// requires is the go.mod of a module that uses the copy.
func (u *user) requires(name string) string {
	return "module " + name + "\n\ngo 1.26.0\n\nrequire github.com/lockmw/kit v0.0.0\n\nreplace github.com/lockmw/kit => " + u.dir + "/_kit\n"
}

// kit is what generated code calls.
const kit = `
-- _kit/go.mod --
module github.com/lockmw/kit

go 1.26.0
-- _kit/lockmw/lockmw.go --
package lockmw

type Locker struct{}

type Policy struct{ Prefix string }
-- _kit/funclock/funclock.go --
package funclock

import (
	"context"

	"github.com/lockmw/kit/lockmw"
)

type Tune func(name string, p *lockmw.Policy)

type Spec struct {
	Name         string
	Keys, Values []string
	Policy       lockmw.Policy
}

type (
	Lock  struct{}
	Call  struct{}
	Value struct{}
)

func New(*lockmw.Locker, Spec, ...Tune) *Lock { return nil }

func (*Lock) Key(...Value) Call { return Call{} }

func (Call) Run(ctx context.Context, fn func(ctx context.Context) error) error { return fn(ctx) }

func String[T ~string](T) Value { return Value{} }

func Int[T ~int](T) Value { return Value{} }
`

// files writes files that stand one after the other, each below a line -- name --.
func (u *user) files(text string) {
	u.Helper()
	for _, part := range strings.Split(text, "\n-- ")[1:] {
		name, content, _ := strings.Cut(part, " --\n")
		u.write(name, content)
	}
}

func (u *user) write(name, content string) {
	u.Helper()
	path := filepath.Join(u.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		u.Fatal(err)
	}
}

func (u *user) remove(name string) {
	u.Helper()
	if err := os.Remove(filepath.Join(u.dir, name)); err != nil {
		u.Fatal(err)
	}
}

// change replaces a text in a file.
func (u *user) change(name, from, to string) {
	u.Helper()
	text, err := os.ReadFile(filepath.Join(u.dir, name))
	if err != nil || !bytes.Contains(text, []byte(from)) {
		u.Fatalf("%s has no %q, %v", name, from, err)
	}
	u.write(name, strings.ReplaceAll(string(text), from, to))
}

func (u *user) run(folder string, patterns []string) lockgen.Request {
	return lockgen.Request{Dir: filepath.Join(u.dir, folder), Patterns: patterns, Flags: lockgen.BuildFlags()}
}

// lockgen wants these files to be changed, and no problem.
func (u *user) lockgen(folder string, patterns []string, want ...string) {
	u.Helper()
	done, err := lockgen.Generate(u.Context(), u.run(folder, patterns))
	if err != nil || len(done.Problems) > 0 || !slices.Equal(done.Changed, want) {
		u.Fatalf("changed = %q, problems = %v, %v; want %q", done.Changed, done.Problems, err, want)
	}
}

// check wants these problems.
func (u *user) check(folder string, patterns []string, want ...string) {
	u.Helper()
	problems, _, err := lockgen.Check(u.Context(), u.run(folder, patterns), true)
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	if err != nil || !slices.Equal(got, want) {
		u.Errorf("problems = %q, %v\nwant %q", got, err, want)
	}
}

// goes runs the go command, which must not fail.
func (u *user) goes(folder string, args ...string) {
	u.Helper()
	if args[0] == "vet" || args[0] == "build" {
		args = slices.Concat(args[:1], lockgen.BuildFlags(), args[1:])
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join(u.dir, folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		u.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

var all = []string{"./..."}

// shop does not compile without the file that is generated of it, and neither does the
// program, which imports it.
const shop = `
-- shop/shop.go --
package shop

import (
	"context"

	"github.com/lockmw/kit/lockmw"
)

type Order struct{ ID string }

type Orders interface {
	//lockmw:lock {order.ID} prefix=order:
	Pay(ctx context.Context, order Order) error
}

type ledger struct{}

func (ledger) Pay(ctx context.Context, _ Order) error { return ctx.Err() }

func New(locks *lockmw.Locker) Orders { return LockOrders(ledger{}, locks) }
-- main.go --
package main

import (
	"context"

	"example.com/user/shop"
	"github.com/lockmw/kit/lockmw"
)

//lockmw:lock {order.ID} prefix=order:
func Cancel(ctx context.Context, order *shop.Order) error { return ctx.Err() }

func main() {
	var locks *lockmw.Locker
	_ = shop.New(locks)
	_ = LockCancel(locks)
}
`

func TestPackagesThatDoNotCompileYetAreGenerated(t *testing.T) {
	slow.Test(t)
	u := newUser(t, shop)
	u.lockgen("", nil, "main_lockgen.go") // its import does not compile
	u.lockgen("shop", nil, "shop_lockgen.go")
	u.goes("", "vet", "./...")
	u.check("", all)

	u.remove("main_lockgen.go")
	u.remove("shop/shop_lockgen.go")
	u.lockgen("", all, "main_lockgen.go", "shop/shop_lockgen.go") // both at once
	u.goes("", "vet", "./...")
	u.lockgen("", all) // nothing is left to do
}

func TestCheckFindsWhatIsNotCurrent(t *testing.T) {
	slow.Test(t)
	u := newUser(t, shop)
	const stale = ":1:1: stale: the directives, or what they name, have changed; run lockgen"
	u.check("", all, "main_lockgen.go"+stale, "shop/shop_lockgen.go"+stale) // there is nothing yet
	u.lockgen("", all, "main_lockgen.go", "shop/shop_lockgen.go")
	u.check("", all)

	u.change("shop/shop.go", "{order.ID}", "{order.ID|lower}")
	u.check("", all, "shop/shop_lockgen.go"+stale)
	u.change("shop/shop.go", "//lockmw:lock", "// No")
	u.check("", all, "shop/shop_lockgen.go:1:1: left over: no directive asks for this file any more; run lockgen")
	u.lockgen("", all, "shop/shop_lockgen.go")
	if _, err := os.Stat(filepath.Join(u.dir, "shop/shop_lockgen.go")); !os.IsNotExist(err) {
		t.Errorf("what is left over is still there: %v", err)
	}
	unwired := "main.go:11:6: unwired: nothing but tests calls LockCancel, so the locks of Cancel are never taken"
	for _, other := range []string{"", "LockCancel := 1", "var LockCancel any", "_ = func(LockCancel int) {}", "_ = struct{ LockCancel int }{LockCancel: 1}.LockCancel"} {
		u.change("main.go", "_ = LockCancel(locks)", other+" // here")
		u.check("", all, unwired)
		u.change("main.go", other+" // here", "_ = LockCancel(locks)")
	}
	u.write("broken.go", "package main\n\nfunc broken( {\n")
	u.check("", all, "broken.go:3:14: expected ')', found '{'")
}

func TestWhatBecomesOfGeneratedFilesIsNoMistake(t *testing.T) {
	slow.Test(t)
	u := newUser(t, strings.Split(shop, "-- main.go --")[0])
	const file = "shop/shop_lockgen.go"
	u.lockgen("", all, file)
	u.change(file, "\n", "\r\n") // as Git does for Windows
	u.check("", all)
	u.lockgen("", all)

	u.change(file, "\treturn ", "<<<<<<< HEAD\r\n\treturn ") // a merge
	reader, err := os.Open(filepath.Join(u.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	before, err := os.ReadFile(filepath.Join(u.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	u.lockgen("", all, file)
	u.goes("", "build", "./...")
	if seen, err := io.ReadAll(reader); err != nil || !bytes.Equal(seen, before) {
		t.Errorf("who reads while lockgen writes sees %d of %d bytes of the former file, %v", len(seen), len(before), err)
	}
	if left, err := filepath.Glob(filepath.Join(u.dir, "shop/.*")); err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
}

// The compiler says what is wrong with a cycle; lockgen can do without what is in it.
func TestPackagesThatImportEachOtherEndNoRun(t *testing.T) {
	slow.Test(t)
	u := newUser(t, `
-- a/a.go --
package a

import (
	"context"

	"example.com/user/b"
)

//lockmw:lock {id}
func A(ctx context.Context, id b.ID) error { return ctx.Err() }

//lockmw:lock {id}
func B(ctx context.Context, id b.Circle) error { return ctx.Err() }
-- b/b.go --
package b

import "example.com/user/a"

type ID string

type Circle a.Unknown
`)
	done, err := lockgen.Generate(t.Context(), u.run("", []string{"./a"}))
	got := fmt.Sprint(done.Problems)
	if err != nil || !strings.Contains(got, "a/a.go:12:16: ") {
		t.Errorf("problems = %v, %v; want one at a/a.go:12:16", got, err)
	}
}

// Decorators of a library are called elsewhere.
func TestALibraryNeedsNoCaller(t *testing.T) {
	slow.Test(t)
	u := newUser(t, `
-- orders.go --
package user

import "context"

//lockmw:lock {id}
func Pay(ctx context.Context, id string) error { return ctx.Err() }

//lockmw:lock {id}
func cancel(ctx context.Context, id string) error { return ctx.Err() }
-- internal/a/a.go --
package a

import "context"

//lockmw:lock {id}
func Pay(ctx context.Context, id string) error { return ctx.Err() }

type other struct{}

func (other) LockPay() {}

func (o other) use(LockPay int) { o.LockPay() }
-- internal/a/a_test.go --
package a

import "testing"

func TestPay(t *testing.T) { LockPay(nil) }
`)
	u.lockgen("", all, "internal/a/a_lockgen.go", "orders_lockgen.go")
	u.check("", all,
		"internal/a/a.go:6:6: unwired: nothing but tests calls LockPay, so the locks of Pay are never taken",
		"orders.go:9:6: unwired: nothing but tests calls lockCancel, so the locks of cancel are never taken")
	u.write("cmd/x/main.go", "package main\n\nimport u \"example.com/user\"\n\nfunc main() { u.LockPay(nil) }\n")
	u.check("", []string{".", "./cmd/..."}, "orders.go:9:6: unwired: nothing but tests calls lockCancel, so the locks of cancel are never taken")
}

// Only its own package can call an unexported method, and what its own type calls does
// not go through the decorator.
func TestALockOnAnUnexportedMethodNeedsACallerElsewhere(t *testing.T) {
	slow.Test(t)
	u := newUser(t, `
-- stock.go --
package user

import (
	"context"

	"github.com/lockmw/kit/lockmw"
)

type Stock struct{}

//lockmw:lock {id}
func (s *Stock) Pay(ctx context.Context, id string) error { return s.pay(ctx, id) }

//lockmw:lock {id}
func (s *Stock) pay(ctx context.Context, id string) error { return ctx.Err() }

func New(locks *lockmw.Locker) *LockedStock { return LockStock(new(Stock), locks) }
`)
	u.lockgen("", nil, "stock_lockgen.go")
	u.check("", nil, "stock.go:15:17: unwired: nothing but Stock itself calls pay, and that takes no lock; call it on what LockStock returns")
	u.write("other.go", "package user\n\nimport \"context\"\n\nfunc other(ctx context.Context, s *LockedStock) error { return s.pay(ctx, \"42\") }\n")
	u.check("", nil)
}

func TestAWorkspaceIsGenerated(t *testing.T) {
	slow.Test(t)
	u := newUser(t, strings.Replace(shop, "-- main.go --", "-- app/main.go --", 1))
	u.write("app/go.mod", u.requires("example.com/app"))
	u.write("go.work", "go 1.26.0\n\nuse .\nuse ./app\n") // app finds example.com/user by it
	t.Setenv("GOWORK", filepath.Join(u.dir, "go.work"))
	u.lockgen("app", all, "main_lockgen.go")
	u.lockgen("", []string{"./shop"}, "shop/shop_lockgen.go")
	u.goes("app", "vet", "./...")
	u.check("", []string{"./app/...", "./shop"})
}

func TestAVendoredModuleIsGenerated(t *testing.T) {
	slow.Test(t)
	u := newUser(t, shop)
	u.write("keep.go", "package main\n\nimport _ \"github.com/lockmw/kit/funclock\"\n") // as generated code does
	u.goes("", "mod", "vendor")
	t.Setenv("GOFLAGS", "-mod=vendor")
	u.lockgen("", all, "main_lockgen.go", "shop/shop_lockgen.go")
	u.goes("", "vet", "./...")
	u.check("", all)
}
