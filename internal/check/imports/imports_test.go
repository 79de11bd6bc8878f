// Package imports checks which package may import which: what a user of one
// door has to compile, and that the layers point one way.
package imports

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lockmw/kit/"

// deps returns the packages that pkg is compiled from, without the standard
// library and itself.
func deps(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+pkg)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var others []string
	for dep := range strings.FieldsSeq(string(out)) {
		if dep != module+pkg {
			others = append(others, dep)
		}
	}
	return others
}

// These packages are compiled from the standard library and what stands beside them.
func TestPackagesKnowNoMoreThan(t *testing.T) {
	for pkg, known := range map[string][]string{
		"keyfunc":            nil,
		"internal/holds":     nil,
		"internal/mono":      nil,
		"internal/outage":    {"internal/mono", "internal/store"},
		"internal/report":    nil,
		"internal/retry":     nil,
		"internal/shards":    nil,
		"internal/waitqueue": {"internal/shards", "internal/store"},
	} {
		t.Run(pkg, func(t *testing.T) {
			for _, dep := range deps(t, pkg) {
				if !slices.Contains(known, strings.TrimPrefix(dep, module)) {
					t.Errorf("%s is compiled from %s too", pkg, dep)
				}
			}
		})
	}
}

// The watchdog knows what a renewal is, and neither leases nor Redis.
func TestRenewUsesStoreAndShardsOnly(t *testing.T) {
	want := []string{module + "internal/shards", module + "internal/store"}
	if got := deps(t, "internal/renew"); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("internal/renew is compiled from %q, want %q", got, want)
	}
}

func TestPackagesAreFreeOf(t *testing.T) {
	const gin, echo, grpc = "github.com/gin-gonic/", "github.com/labstack/", "google.golang.org/"
	const rpc = "connectrpc.com/"
	const embedded, checker, aid = "github.com/alicebob/", "go.uber.org/goleak", module + "locktest"
	for _, tc := range []struct {
		pkg  string
		free []string
	}{
		{"lockmw", []string{gin, echo, grpc, rpc, embedded, checker, aid, module + "keyfunc", module + "internal/httpdoor"}},
		{"fence", []string{gin, echo, grpc, rpc, embedded, checker, aid, module + "keyfunc", module + "internal/httpdoor", "gorm.io/", "github.com/jackc/", "github.com/go-sql-driver/"}},
		{"internal/redisstore", []string{gin, echo, grpc, embedded, checker, module + "lockmw", module + "keyfunc"}},
		{"internal/store", []string{"github.com/", "google.golang.org/"}},
		{"ginlock", []string{echo, "google.golang.org/grpc", rpc, embedded, checker, aid}},
		{"echolock", []string{gin, echo + "echo/v5", grpc, rpc, embedded, checker, aid}},
		{"echolock/v5", []string{gin, echo + "echo/v4", grpc, rpc, embedded, checker, aid}},
		{"internal/echodoor", []string{gin, echo, grpc, rpc, embedded, checker, aid}},
		{"httplock", []string{gin, echo, grpc, rpc, embedded, checker, aid}},
		{"grpclock", []string{gin, echo, rpc, embedded, checker, aid, module + "internal/httpdoor", module + "examples/"}},
		{"lockclient", []string{"github.com/", grpc, rpc}},
		{"lockclient/grpcretry", []string{gin, echo, rpc, "github.com/redis/", module + "lockmw"}},
		{"lockclient/connectretry", []string{gin, echo, grpc + "grpc/", "github.com/redis/", module + "lockmw"}},
		{"connectlock", []string{gin, echo, "google.golang.org/grpc", embedded, checker, aid, module + "internal/httpdoor", module + "examples/"}},
		{"internal/rpcdoor", []string{gin, echo, "google.golang.org/grpc", rpc, embedded, checker, aid, module + "internal/httpdoor"}},
		{"grpclock/lockmwv1", []string{gin, echo, grpc + "grpc/", embedded, checker, module}},
		{"locktest", []string{gin, echo, grpc, rpc, checker, "golang.org/x/tools", module + "internal/test/redistest"}},
		{"funclock", []string{gin, echo, grpc, rpc, embedded, checker, aid, module + "internal/httpdoor", module + "internal/lockgen"}},
		{"cmd/lockgen", []string{gin, echo, grpc, rpc, embedded, checker, "golang.org/x/tools", aid, module + "funclock"}},
	} {
		t.Run(tc.pkg, func(t *testing.T) {
			for _, dep := range deps(t, tc.pkg) {
				for _, unwanted := range tc.free {
					if strings.HasPrefix(dep, unwanted) && dep != module+tc.pkg {
						t.Errorf("%s is compiled from %s", tc.pkg, dep)
					}
				}
			}
		})
	}
}

// Only tests, and what stands in the test wing itself, know the test wing.
func TestTheTestWingIsForTestsAlone(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", module+"...")
	cmd.Dir = "../../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(pkg, module+"internal/test/") {
			continue
		}
		for dep := range strings.FieldsSeq(imports) {
			if strings.HasPrefix(dep, module+"internal/test/") {
				t.Errorf("%s is compiled from %s", pkg, dep)
			}
		}
	}
}
