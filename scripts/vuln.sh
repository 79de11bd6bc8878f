#!/usr/bin/env bash
# Looks for known vulnerabilities in what a module uses, and fails if there is one that is not accepted below: vuln.sh VERSION MODULE...
#
# Tests are looked at as well: some modules have nothing else. VERSION is that of govulncheck. VULNDB=file:///… has it ask a
# database of your own (see x/vulndb, cmd/indexdb). What is in the standard library is that of the Go that runs this.
set -euo pipefail
cd "$(dirname "$0")/.."

# Accepted, since there is no version without them and nothing of ours runs them:
# Echo v4's rate limiter (GO-2026-6872) and its reverse proxy (GO-2026-6875), which a service has to ask for. Echo v5 has neither.
accepted='^(GO-2026-6872|GO-2026-6875)$'

govulncheck=golang.org/x/vuln/cmd/govulncheck@$1
shift
failed=
for module in "$@"; do
	echo "vuln $module"
	# It ends with 3 where it has found something, and with another status where it could not look.
	code=0
	said=$(go run -C "$module" "$govulncheck" -test ${VULNDB:+-db "$VULNDB"} ./... 2>&1) || code=$?
	found=$(sed -nE 's/^Vulnerability #[0-9]+: (GO-[0-9-]+).*/\1/p' <<<"$said" | grep -vE "$accepted" || true)
	if [ -n "$found" ] || { [ "$code" -ne 0 ] && ! grep -q '^Vulnerability #' <<<"$said"; }; then
		echo "$said"
		failed="$failed $module"
	fi
done
if [ -n "$failed" ]; then
	echo "vuln: not clean:$failed" >&2
	exit 1
fi
