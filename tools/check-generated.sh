#!/usr/bin/env bash
# Runs every generator and fails when a file changed or appeared: the committed output is stale. It
# compares the tree before and after, so uncommitted work does not disturb it.
set -euo pipefail
cd "$(dirname "$0")/.."

snapshot() {
	git ls-files -z --cached --others --exclude-standard |
		xargs -0 sh -c 'for f; do [ -f "$f" ] && sha256sum "$f"; done; true' _ | sort -k 2
}

before=$(mktemp)
after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT

snapshot >"$before"
make --no-print-directory generate
snapshot >"$after"

if ! diff -u "$before" "$after" >/dev/null; then
	echo "check-generated: these files are stale; run 'make generate' and commit them:" >&2
	diff "$before" "$after" | awk '/^[<>]/ {print "  " $3}' | sort -u >&2
	git --no-pager diff --stat >&2 || true
	exit 1
fi
echo "check-generated: generated files are up to date"
