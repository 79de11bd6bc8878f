#!/usr/bin/env bash
# Runs the tests of the engine and of the middlewares with other versions of what they
# require:
#
#   versions.sh lowest [PACKAGE…]    as go.mod says, which is the lowest of each
#   versions.sh newest [PACKAGE…]    the newest of each that there is
#
# go.mod and go.sum stay as they are: the newest are written into copies. What is
# raised is printed, so that a run which fails says with what.
set -euo pipefail
cd "$(dirname "$0")/.."

which=${1:-}
shift || true
if [ $# -eq 0 ]; then
	set -- ./lockmw ./internal/redisstore/... ./internal/quorum ./keyfunc ./httplock ./ginlock ./echolock/... \
		./grpclock/... ./connectlock ./funclock ./locktest ./internal/check/urls
fi

case $which in
lowest)
	exec go test -count=1 -p 2 -parallel 4 -timeout 15m "$@"
	;;
newest)
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	cp go.mod go.sum "$copy"
	go list -m -f '{{if not (or .Main .Indirect)}}{{.Path}}@latest{{end}}' all | grep . | xargs go get -modfile="$copy/go.mod"
	go mod tidy -modfile="$copy/go.mod"
	go test -modfile="$copy/go.mod" -count=1 -p 2 -parallel 4 -timeout 15m "$@"
	;;
*)
	echo "usage: versions.sh lowest|newest [PACKAGE...]" >&2
	exit 2
	;;
esac
