// Command protogen writes the Go code of all .proto files of this repository.
// It needs no protoc: protocompile parses the files, and the plug-ins that
// protoc would call are tools of this module.
//
//	protogen DIR          write the code
//	protogen -check DIR   fail if what is there is not what would be written
//
// DIR is the repository's root. Files are looked for below the folders in
// roots, and each says in its go_package where its code belongs.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const module = "github.com/lockmw/kit"

// roots are the folders that imports are relative to.
var roots = []string{"grpclock/lockmwv1", "internal/test/rpctest/proto", "examples/grpc/proto"}

var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	do, args := write, os.Args[1:]
	if len(args) > 0 && args[0] == "-check" {
		do, args = check, args[1:]
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: protogen [-check] DIR")
		os.Exit(2)
	}
	if err := do(context.Background(), args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// write writes the code of the repository at dir.
func write(ctx context.Context, dir string) error {
	code, err := generate(ctx, dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(code)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(code[name]), 0o644); err != nil {
			return err
		}
		fmt.Println(name)
	}
	return nil
}

// check returns an error that names what is not current in the repository at
// dir: code that differs, and code that no .proto file stands behind any more.
func check(ctx context.Context, dir string) error {
	code, err := generate(ctx, dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(code)) {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || string(got) != code[name] {
			errs = append(errs, fmt.Errorf("%s is not what its .proto file says; run make generate", name))
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".pb.go") {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if _, known := code[filepath.ToSlash(name)]; !known {
			errs = append(errs, fmt.Errorf("%s belongs to no .proto file", filepath.ToSlash(name)))
		}
		return err
	})
	return errors.Join(append(errs, err)...)
}

// generate returns the code by its path below dir, with slashes.
func generate(ctx context.Context, dir string) (map[string]string, error) {
	request, err := compile(ctx, dir)
	if err != nil {
		return nil, err
	}
	code := make(map[string]string)
	for _, plugin := range plugins {
		response, err := call(ctx, plugin, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		for _, file := range response.GetFile() {
			code[file.GetName()] = file.GetContent()
		}
	}
	return code, nil
}

// compile returns what protoc would ask a plug-in for.
func compile(ctx context.Context, dir string) (*pluginpb.CodeGeneratorRequest, error) {
	var imports, names []string
	for _, root := range roots {
		root = filepath.Join(dir, filepath.FromSlash(root))
		found, err := protos(root)
		if err != nil {
			return nil, err
		}
		imports, names = append(imports, root), append(names, found...)
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: imports}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become those of the code
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      new("module=" + module),
		ProtoFile:      withImports(files),
	}, nil
}

// protos returns the .proto files below root, relative to it.
func protos(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s holds no .proto file", root)
	}
	return names, err
}

// withImports returns the files and what they import, each after its imports.
func withImports(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := make(map[string]bool)
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		imports := file.Imports()
		for i := range imports.Len() {
			add(imports.Get(i).FileDescriptor)
		}
		all = append(all, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	return all
}

// call runs a plug-in, which is a tool of this module.
func call(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, &said)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out.Bytes(), &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return &response, nil
}
