// Package lockmwv1 is the Go code of the option (lockmw.v1.lock). With this option, a
// .proto file says beside an rpc under which lock the rpc runs. grpclock.Annotated reads
// it.
//
// A .proto file imports the option as
//
//	import "lockmw/v1/lock.proto";
//
// That file lies below this package's folder, and go mod vendor copies it along. Vendored
// or not, protoc finds it with
//
//	protoc -I proto -I "$(go list -f '{{.Dir}}' github.com/lockmw/kit/grpclock/lockmwv1)" …
//
// For buf, the vendored folder is one more module of the workspace. buf wants all modules
// to be below the folder of buf.yaml. If you do not vendor, copy this package's folder
// lockmw into a folder such as third_party/lockmwv1, and name that one in its place. A
// copy in proto would get Go code of its own.
//
//	# buf.yaml
//	version: v2
//	modules:
//	  - path: proto
//	  - path: vendor/github.com/lockmw/kit/grpclock/lockmwv1
//
//	# buf.gen.yaml: makes no Go code of lock.proto, because this package is that
//	version: v2
//	inputs:
//	  - directory: proto
//	managed: # only if you use managed mode
//	  enabled: true
//	  disable:
//	    - file_option: go_package
//	      path: lockmw/v1
//
// For Bazel, two lines in a BUILD file tell gazelle which rules the import stands for:
//
//	# gazelle:resolve proto lockmw/v1/lock.proto //third_party/lockmw:lock_proto
//	# gazelle:resolve proto go lockmw/v1/lock.proto @com_github_lockmw_kit//grpclock/lockmwv1
//
// lock_proto is a proto_library of a copy of the file. A genrule makes that copy of
// @com_github_lockmw_kit//grpclock/lockmwv1:lockmw/v1/lock.proto.
package lockmwv1

import _ "embed" // for Proto

// Proto is the text of lockmw/v1/lock.proto, for programs that compile .proto files
// themselves, or write the file to where another tool looks for it.
//
//go:embed lockmw/v1/lock.proto
var Proto string
