#!/usr/bin/env bash
# Runs every fuzz target of every module for a while each, or the one of that name: fuzz.sh [TIME [NAME]]
set -euo pipefail

time=${1:-5s}
targets=$(grep -rE --include='*_test.go' "^func ${2:-Fuzz[A-Za-z0-9_]*}\\(" . |
	sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*)\(.*|\1 \2|' | LC_ALL=C sort)
if [ -z "$targets" ]; then
	echo "no fuzz targets"
	exit 0
fi
while read -r folder target; do
	echo "fuzz $folder $target for $time"
	# From within the folder, which may be part of another module.
	(cd "$folder" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" . </dev/null)
done <<<"$targets"
