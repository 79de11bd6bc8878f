#!/usr/bin/env bash
# Runs every fuzz target of the root module for a while each: fuzz.sh [TIME]
set -euo pipefail

time=${1:-5s}
targets=$(grep -rE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' . |
	sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*)\(.*|\1 \2|' | LC_ALL=C sort)
if [ -z "$targets" ]; then
	echo "no fuzz targets"
	exit 0
fi
while read -r package target; do
	echo "fuzz $package $target for $time"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null
done <<<"$targets"
