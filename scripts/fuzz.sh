#!/usr/bin/env bash
# Runs every fuzz target of every module for a while each, or the one of that name: fuzz.sh [TIME [NAME]]
#
# Where one fails, the others run all the same. The input that it fails with is kept in testdata/fuzz beside its test, and
# from then on the test tries it, too.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-5s}
targets=$(grep -rE --include='*_test.go' "^func ${2:-Fuzz[A-Za-z0-9_]*}\\(" . |
	sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*)\(.*|\1 \2|' | LC_ALL=C sort) || true
if [ -z "$targets" ]; then
	echo "fuzz: there is no target ${2:-at all}" >&2
	exit 1
fi
trap 'exit 130' INT # Ctrl-C ends this, too, and not one target
failed=
while read -r folder target; do
	echo "fuzz $folder $target for $time"
	# From within the folder, which may be part of another module.
	(cd "$folder" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" . </dev/null) || failed="$failed $folder:$target"
done <<<"$targets"
if [ -n "$failed" ]; then
	echo "fuzz: failed:$failed" >&2
	exit 1
fi
