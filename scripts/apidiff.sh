#!/usr/bin/env bash
# Compares what the public packages of this checkout export with what they exported at a
# revision: apidiff.sh [-incompatible] [REVISION]
#
# Without REVISION it is the last release's tag. Compared are the modules that others
# import: the root, lockprom and lockotel. It prints what differs and changes nothing;
# VERSIONING.md says what may differ in which version.
set -euo pipefail
cd "$(dirname "$0")/.."

flags=(-m)
if [ "${1:-}" = -incompatible ]; then
	flags+=("$1")
	shift
fi
revision=${1:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)}
if [ -z "$revision" ]; then
	echo "apidiff: there is no release yet: name a revision" >&2
	exit 2
fi

work=$(mktemp -d)
remove() {
	git worktree remove --force "$work/old" 2>/dev/null || true
	rm -rf "$work"
}
trap remove EXIT
git worktree add --quiet --detach "$work/old" "$revision"
apidiff=$(GOWORK=off go tool -modfile="$PWD/tools/go.mod" -n apidiff)

# Runs apidiff in a folder, without its line for each internal package.
quiet() (
	cd "$1"
	shift
	"$apidiff" "$@" 2> >(grep -v '^Ignoring internal package' >&2)
)

for folder in . lockprom lockotel; do
	if [ ! -f "$work/old/$folder/go.mod" ]; then
		echo "$folder: new since $revision"
		continue
	fi
	module=$(cd "$folder" && go list -m)
	quiet "$work/old/$folder" -m -w "$work/export" "$module"
	echo "== $module since $revision"
	quiet "$folder" "${flags[@]}" "$work/export" "$module"
done
