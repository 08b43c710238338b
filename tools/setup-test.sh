#!/usr/bin/env bash
# Sees to it that the programs which the tests run are installed: a PostgreSQL server, strace,
# openssl, curl, Chromium (for pages that need a real browser; 124 MB, 20 seconds) and a C compiler
# (the race detector links with it). As root with apt-get it installs what
# is missing; otherwise it says what to install and ends with an error.
set -euo pipefail

# found_postgres looks where the tests look: on PATH, beside pg_config, in Debian's folders.
found_postgres() {
	command -v initdb >/dev/null 2>&1 && return 0
	if command -v pg_config >/dev/null 2>&1 && [ -x "$(pg_config --bindir)/initdb" ]; then
		return 0
	fi
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

# found_chromium looks for what tools/browser starts.
found_chromium() {
	command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1
}

found_compiler() {
	command -v "${CC:-gcc}" >/dev/null 2>&1 || command -v cc >/dev/null 2>&1
}

packages=()
found_postgres || packages+=(postgresql)
command -v strace >/dev/null 2>&1 || packages+=(strace)
command -v openssl >/dev/null 2>&1 || packages+=(openssl)
command -v curl >/dev/null 2>&1 || packages+=(curl)
found_chromium || packages+=(chromium)
found_compiler || packages+=(gcc libc6-dev)

if [ "${#packages[@]}" -eq 0 ]; then
	echo "setup-test: everything the tests need is installed"
	exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "setup-test: the tests need these packages (Debian's names), please install them: ${packages[*]}" >&2
	exit 1
fi

echo "setup-test: installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${packages[@]}"

found_postgres || { echo "setup-test: PostgreSQL was installed, but its initdb is nowhere to be found" >&2; exit 1; }
echo "setup-test: done"
