#!/usr/bin/env bash
# Makes the commit and the tags of a release, and pushes nothing: release.sh v1.2.3
#
# Before it, CHANGELOG.md has a section of that version, all is committed, and make lint
# and make test have passed. A heading without a date, "## [1.2.3]", is given today's.
#
# The root, lockprom, lockotel, cmd/lockctl and cmd/lockvet are modules of one version. Those that
# require another of them are given that version in their go.mod, in one commit, and each
# module has a tag at it: v1.2.3, lockprom/v1.2.3 and so on. No module's tag may come to the server
# before those of the modules that it requires, or somebody's go install finds a requirement that is not
# there yet, and the module proxies remember that. And GitHub starts no workflow for tags of which more
# than three come at once. So the last step, which this script only prints, is pushes of at most three
# tags: the root, which requires none of the others, and the commands, which its workflow builds; then
# the rest. tools/release checks this order.
#
# Until the next release the modules keep requiring this one. Their go.work files have them
# built with the checkout all the same.
set -euo pipefail
cd "$(dirname "$0")/.."

give_up() {
	echo "release: $*" >&2
	exit 1
}

version=${1:-}
number='(0|[1-9][0-9]*)'
word='(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)'
[[ $version =~ ^v$number\.$number\.$number(-$word(\.$word)*)?$ ]] || give_up "a version is like v1.2.3, not \"$version\""
[[ $version == v[01].* ]] || give_up "for ${version%%.*} the paths of all modules must end in /${version%%.*}"
branch=$(git symbolic-ref -q --short HEAD || true)
[ "$branch" = main ] || give_up "a release is made on the branch main, not on ${branch:-a commit without a branch}"
[ -z "$(git status --porcelain)" ] || give_up "there are changes that are not committed"
grep -qF "## [${version#v}]" CHANGELOG.md || give_up "CHANGELOG.md has no section [${version#v}]"

# What others install besides the root has a go.work beside it.
folders=$(find . -mindepth 2 -name go.work -not -path '*/testdata/*' -exec dirname {} \; | sed 's|^\./||' | LC_ALL=C sort)
tags=("$version")
for folder in $folders; do tags+=("$folder/$version"); done
for tag in "${tags[@]}"; do
	! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || give_up "there is a tag $tag already"
done

path() { (cd "$1" && GOWORK=off go mod edit -json | sed -nE '/"Module"/,/}/ s/.*"Path": "([^"]+)".*/\1/p'); }
paths=$(for folder in . $folders; do path "$folder"; done)
# Those that nobody installs require the root beside the others, and may not require less
# of it than these do: the go command refuses to build them then.
modules=$(find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -exec dirname {} \; | sed 's|^\./||' | LC_ALL=C sort)
for folder in $modules; do
	for path in $paths; do
		if grep -qE "^(require )?[[:space:]]*$path v" "$folder/go.mod"; then
			(cd "$folder" && GOWORK=off go mod edit "-require=$path@$version") || give_up "$folder/go.mod cannot be changed"
		fi
	done
	git add "$folder/go.mod"
done
heading="## [${version#v}]"
changes=$(awk -v heading="$heading" -v today="$(date -u +%F)" '$0 == heading { $0 = heading " - " today } { print }' CHANGELOG.md)
printf '%s\n' "$changes" >CHANGELOG.md
git add CHANGELOG.md
git commit -q --allow-empty -m "release: $version"
for tag in "${tags[@]}"; do git tag -a -m "$tag" "$tag"; done

echo "release: committed and tagged. Look at it, and then, one after the other:"
branch="$branch "
for ((i = 0; i < ${#tags[@]}; i += 3)); do
	echo "  git push --atomic origin $branch${tags[*]:i:3}"
	branch=
done
