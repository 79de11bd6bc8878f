#!/usr/bin/env bash
# Builds the commands of a release for the usual systems, and their checksums: binaries.sh v1.2.3 FOLDER
#
# It builds what go install gives users: the modules of that version, from where GOPROXY says, and not this checkout. So each
# program tells its version, and whoever builds it again with the same Go has the same bytes. SYSTEMS names other systems than the
# usual ones, PROGRAMS some of the commands.
set -euo pipefail

give_up() {
	echo "binaries: $*" >&2
	exit 1
}

version=${1:-}
out=${2:-}
[[ $version == v*.*.* && -n $out ]] || give_up "usage: binaries.sh v1.2.3 FOLDER"
systems=${SYSTEMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}
programs=${PROGRAMS:-lockctl lockgen lockvet}
kit=github.com/lockmw/kit
tools=$(cd "$(dirname "$0")/../tools" && pwd)

mkdir -p "$out"
out=$(cd "$out" && pwd)
[ -z "$(ls -A "$out")" ] || give_up "$out is not empty"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOMODCACHE=$(go env GOMODCACHE)
export GOMODCACHE
export GOPATH="$work" GOBIN= GOWORK=off CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
cd "$work" # outside of any module

host=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
packed=()
for system in $systems; do
	bin=bin
	if [ "$system" != "$host" ]; then bin=bin/${system/\//_}; fi
	for program in $programs; do # one by one: they are of several modules
		GOOS=${system%/*} GOARCH=${system#*/} go install -ldflags="-s -w" "$kit/cmd/$program@$version"
		file=$program
		if [[ $system == windows/* ]]; then file=$program.exe; fi
		packed+=("${program}_${version#v}_${system/\//_}.tar.gz=$bin/$file")
	done
done
go run "$tools/pack/main.go" "$out" "${packed[@]}"
