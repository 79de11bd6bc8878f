// Package lockmwv1 is the option (lockmw.v1.lock), with which a .proto file says beside
// an rpc under which lock it runs. grpclock.Annotated reads it.
//
// A .proto file imports it as
//
//	import "lockmw/v1/lock.proto";
//
// and that file lies below this package's folder. It is embedded here as well, so that
// go mod vendor copies it. protoc finds it, vendored or not, with
//
//	protoc -I proto -I "$(go list -f '{{.Dir}}' github.com/lockmw/kit/grpclock/lockmwv1)" …
//
// buf takes the vendored folder for one module more of the workspace. It wants paths
// below buf.yaml; where nothing is vendored, copy the folder lockmw there.
//
//	# buf.yaml
//	modules:
//	  - path: proto
//	  - path: vendor/github.com/lockmw/kit/grpclock/lockmwv1
//
//	# buf.gen.yaml: no code for it, because this package is that
//	inputs:
//	  - directory: proto
//	managed: # if you use it
//	  enabled: true
//	  disable:
//	    - file_option: go_package
//	      path: lockmw/v1
//
// For Bazel, gazelle wants to be told which rules stand for the import:
//
//	# gazelle:resolve proto lockmw/v1/lock.proto //third_party/lockmw:lock_proto
//	# gazelle:resolve proto go lockmw/v1/lock.proto @com_github_lockmw_kit//grpclock/lockmwv1
//
// where lock_proto is a proto_library of a copy of the file, which a genrule makes of
// @com_github_lockmw_kit//grpclock/lockmwv1:lockmw/v1/lock.proto.
package lockmwv1

import _ "embed" // for Proto

// Proto is the text of lockmw/v1/lock.proto, for programs that compile .proto files
// themselves, or put the file where another tool wants it. Nothing in this module reads
// it.
//
//go:embed lockmw/v1/lock.proto
var Proto string
