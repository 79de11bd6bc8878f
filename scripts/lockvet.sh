#!/usr/bin/env bash
# Has our own lockvet look at packages of modules, as go vet names them: lockvet.sh "./..." MODULE...
#
# The first time it looks at all that they import, for locks that functions hand over: a minute or two. After that go vet
# looks only at what has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

# These packages are tests that tests of other packages call. Some of their files get no *testing.T, by which lockvet would know them. They drop leases
# on purpose: a handler that must be refused the lock that it has (doortest/hold.go, rpctest/hold.go), a door that keeps a lease (rpctest/faulty_stream.go).
# And they have policies that must be refused (rpctest/options.go, rpctest/onceends.go). No comment silences lockvet at one place, so two of its rules
# are off there.
on_purpose='/internal/test/(doortest|rpctest)$'
off=(-lockrelease=false -lockpolicy=false)

packages=$1
shift
bin=$(mktemp -d)
trap 'rm -r "$bin"' EXIT
go -C cmd/lockvet build -trimpath -buildvcs=false -o "$bin/lockvet" . # the same program from each commit, so that go vet knows its results again

# Paths of packages have no blanks, so they are split: macOS's bash has no mapfile.
# shellcheck disable=SC2086
vet() { # vet MODULE PACKAGES FLAG...
	local module=$1 packages=$2
	shift 2
	[ -z "$packages" ] || (cd "$module" && "$bin/lockvet" "$@" $packages) || failed="$failed $module"
}

failed=
for module in "$@"; do
	echo "lockvet $module"
	# shellcheck disable=SC2086 # it may be several patterns
	all=$(go -C "$module" list $packages)
	vet "$module" "$(grep -vE "$on_purpose" <<<"$all")"
	vet "$module" "$(grep -E "$on_purpose" <<<"$all")" "${off[@]}"
done
if [ -n "$failed" ]; then
	echo "lockvet: not clean:$failed" >&2
	exit 1
fi
