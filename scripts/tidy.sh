#!/usr/bin/env bash
# Brings go.mod and go.sum of every module up to date, that under testdata too: tidy.sh
#
# lockprom, lockotel, cmd/lockctl and cmd/lockvet are modules that others install. Their go.mod has no
# replace directive, because go install refuses one; a go.work beside it has the other
# modules come from this checkout. go mod tidy takes no notice of a go.work, so it is given
# those directives for as long as it runs.
set -euo pipefail
cd "$(dirname "$0")/.."

# What a go.work replaces, as "path=>directory" lines.
replaced() {
	go work edit -json "$1" | sed -nE '
		/"Old"/,/}/ s/.*"Path": "([^"]+)".*/\1/p
		/"New"/,/}/ s/.*"Path": "([^"]+)".*/=>\1/p' | paste -d '\0' - -
}

# In a subshell, so that its trap ends with it. Each step says what happens when it fails, since the subshell's set -e does not count where
# tidy is called with a "||", and without that macOS's bash 3.2 goes on.
tidy() (
	cd "$1" || exit
	drops=()
	if [ -f go.work ]; then
		# Whatever happens, no replace directive stays.
		# shellcheck disable=SC2317
		restore() { [ ${#drops[@]} -eq 0 ] || GOWORK=off go mod edit "${drops[@]}"; }
		trap restore EXIT
		while IFS= read -r line; do
			[ -n "$line" ] || continue
			drops+=("-dropreplace=${line%%=>*}")
			GOWORK=off go mod edit "-replace=${line/=>/=}" || exit
		done < <(replaced go.work)
	fi
	GOWORK=off go mod tidy
)

find . -name go.mod | LC_ALL=C sort | while IFS= read -r file; do
	module=$(dirname "$file")
	echo "tidy $module"
	tidy "$module" </dev/null || exit 1
done
