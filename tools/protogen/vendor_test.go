package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
)

// annotation is the package of the file that users import.
const annotation = module + "/grpclock/lockmwv1"

// service is what a user writes.
const service = `syntax = "proto3";
package shop.v1;
import "lockmw/v1/lock.proto";
option go_package = "example.com/shop/shopv1";
service Orders {
  rpc Pay(Order) returns (Order) {
    option (lockmw.v1.lock) = {key: "{body.id}", prefix: "order:", wait: {seconds: 2}};
  }
}
message Order { string id = 1; }
`

// shop returns the folder of a program that uses this repository, and one that has its
// .proto file.
func shop(t *testing.T) (program, protos string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program, protos = t.TempDir(), t.TempDir()
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// What this module requires, the program does, too: nothing is looked for.
	mod := strings.Replace(string(ours), "module "+module, "module example.com/shop", 1) +
		"\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n"
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(program, "go.mod"), mod)
	put(t, filepath.Join(program, "go.sum"), string(sum))
	put(t, filepath.Join(program, "main.go"), "package main\n\nimport _ \""+module+"/grpclock\"\n\nfunc main() {}\n")
	put(t, filepath.Join(protos, "shop/v1/orders.proto"), service)
	return program, protos
}

// run runs the go command in dir, as a user with this setting of -mod does.
func run(t *testing.T, dir, mod string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+mod, "GOWORK=off")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// The line that the documents give to protoc finds the file where Go has the package,
// and there it is as its import names it.
func TestTheAnnotationIsFoundWhereGoHasThePackage(t *testing.T) {
	program, protos := shop(t)
	run(t, program, "-mod=mod", "mod", "vendor")
	for mode, want := range map[string]string{"-mod=mod": "", "-mod=vendor": filepath.Join(program, "vendor")} {
		t.Run(mode, func(t *testing.T) {
			dir := run(t, program, mode, "list", "-f", "{{.Dir}}", annotation)
			if !strings.HasPrefix(resolved(t, dir), resolved(t, want)) {
				t.Errorf("the package is in %s, want it below %s", dir, want)
			}
			compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(
				&protocompile.SourceResolver{ImportPaths: []string{protos, dir}})}
			if _, err := compiler.Compile(context.Background(), "shop/v1/orders.proto"); err != nil {
				t.Error(err)
			}
		})
	}
}

// resolved is a path without symbolic links, which temporary folders may be behind.
func resolved(t *testing.T, path string) string {
	t.Helper()
	if path == "" {
		return ""
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
