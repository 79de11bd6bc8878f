#!/usr/bin/env bash
# Makes sure that programs which the tests need are there:
#
#   ensure.sh [redis-server] [cc] [make] [chromium] [prometheus] [postgres] [mariadb] [bash-completion] [zsh] [fish]
#
# One that is there is left alone. Otherwise it is installed with apt-get
# (Debian, Ubuntu) or brew (macOS). Where neither is possible the script says
# what to do and fails. REDIS_SERVER may name a redis-server outside of PATH.
#
# The tests start their own servers on free ports; no service is wanted, so
# Debian's packages are kept from starting the ones they bring.
set -euo pipefail

say() { printf 'ensure: %s\n' "$*"; }

give_up() {
	say "$*" >&2
	exit 1
}

# Where to find a program, why it is needed, and its packages.
program() {
	case $1 in
	redis-server) echo "${REDIS_SERVER:-redis-server}" ;;
	bash-completion) echo /usr/share/bash-completion/bash_completion ;;
	postgres) in_folders postgres /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin ;;
	mariadb) in_folders mariadbd /usr/sbin ;;
	chromium) browser ;;
	*) echo "$1" ;;
	esac
}

# Prints the name of a program where it is in PATH, or else the file in the last of the folders that has it.
in_folders() {
	local name=$1 found=$1 folder
	shift
	if ! command -v "$name" >/dev/null; then
		for folder in "$@"; do [ ! -x "$folder/$name" ] || found=$folder/$name; done
	fi
	echo "$found"
}

# Prints the browser that the tests take, which try these in this order, or else the name of the package.
browser() {
	local one
	for one in "/Applications/Chromium.app/Contents/MacOS/Chromium" "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" \
		headless_shell headless-shell chromium chromium-browser google-chrome google-chrome-stable /snap/bin/chromium; do
		if command -v "$one" >/dev/null; then
			echo "$one"
			return
		fi
	done
	echo chromium
}

# Prints where a program is; a script for bash to read is a file that need not be one.
find() { command -v "$1" || { [ "${1#/}" != "$1" ] && [ -r "$1" ] && echo "$1"; }; }
purpose() {
	case $1 in
	redis-server) echo "the tests run against real servers; Redis 7.0 or newer, or set REDIS_SERVER to the path of its redis-server" ;;
	cc) echo "the race detector needs a C compiler" ;;
	make) echo "the Makefile is the way to all checks" ;;
	chromium) echo "the console is tested in a real browser, Chromium or Google Chrome; Ubuntu has neither as a package, so download Chrome there or run snap install chromium" ;;
	bash-completion | zsh | fish) echo "the completion of lockctl is tried in real shells" ;;
	postgres | mariadb) echo "late writers are refused in real databases" ;;
	prometheus) echo "the board and the alerts are tested with a real server, and with promtool that comes with it" ;;
	esac
}
debian_packages() {
	case $1 in
	redis-server) echo redis-server ;;
	cc) echo gcc libc6-dev ;;
	postgres) echo postgresql ;;
	mariadb) mariadb_package ;;
	make | chromium | prometheus | bash-completion | zsh | fish) echo "$1" ;;
	esac
}

# Prints the package of the server alone. Older Debian and Ubuntu have a version in its name.
mariadb_package() {
	local names
	names=$(apt-cache search --names-only '^mariadb-server-core(-[0-9.]+)?$' | cut -d ' ' -f 1 | LC_ALL=C sort)
	names=${names:-mariadb-server-core}
	echo "${names%%$'\n'*}"
}

brew_formula() {
	case $1 in
	redis-server) echo redis ;;
	postgres) echo postgresql@17 ;;
	make | mariadb | chromium | prometheus) echo "$1" ;;
	esac
}

as_root=()

# Runs its arguments as root. The odd expansion is for bash 3.2 (macOS), which
# takes an empty array for an unset variable.
root() { ${as_root[@]+"${as_root[@]}"} "$@"; }

policy=/usr/sbin/policy-rc.d
forget_policy() { root rm -f "$policy"; }

# Debian asks policy-rc.d before a package starts its service; 101 means "no".
# One that is there already belongs to the machine and is respected.
forbid_services() {
	[ ! -e "$policy" ] || return 0
	trap forget_policy EXIT
	printf '#!/bin/sh\nexit 101\n' | root tee "$policy" >/dev/null
	root chmod 755 "$policy"
}

apt() {
	root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 \
		-o Acquire::Retries=3 "$@" </dev/null
}

# Once is enough; a machine without network may still have what is needed.
refresh_lists() {
	[ -z "$refreshed" ] || return 0
	refreshed=yes
	apt update || say "apt-get update failed; going on with the package lists that are here." >&2
}
refreshed=

with_apt() {
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || give_up "$1 is missing, and to install it needs root or sudo: $(purpose "$1")."
		as_root=(sudo)
	fi
	refresh_lists
	local packages
	read -ra packages <<<"$(debian_packages "$1")"
	say "$1 is missing; installing ${packages[*]} with apt-get, without starting a service."
	forbid_services
	apt install -y --no-install-recommends "${packages[@]}" || give_up "apt-get could not install ${packages[*]}: $(purpose "$1")."
	case $1 in
	redis-server | prometheus | postgres)
		[ ! -d /run/systemd/system ] || root systemctl disable --quiet "${packages[0]}.service" || true # nor at the next boot
		;;
	esac
}

with_brew() {
	local formula
	formula=$(brew_formula "$1")
	[ -n "$formula" ] || give_up "$1 is missing: $(purpose "$1"). Run xcode-select --install."
	say "$1 is missing; installing $formula with brew."
	brew install "$formula" </dev/null || give_up "brew could not install $formula: $(purpose "$1")."
}

# Gives up where a redis-server is older than those that lockmw works with. It says "Redis server v=7.2.4 sha=…", and Valkey says the same of itself.
new_enough() {
	[ "$1" = redis-server ] || return 0
	local version
	version=$("$2" --version | sed -nE 's/.* v=([0-9]+\.[0-9.]+).*/\1/p') || give_up "$2 --version fails: $(purpose "$1")."
	version=${version:-7} # another server, which says something else
	[ "${version%%.*}" -ge 7 ] || give_up "$2 is version $version: $(purpose "$1")."
}

ensure() {
	local binary
	if binary=$(find "$(program "$1")"); then
		new_enough "$1" "$binary"
		say "$1 is there: $binary"
		return
	fi
	[ "$1" != redis-server ] || [ "$(program "$1")" = "$1" ] || give_up "REDIS_SERVER=$REDIS_SERVER is not a program that can be run."
	if command -v apt-get >/dev/null; then
		with_apt "$1"
	elif command -v brew >/dev/null; then
		with_brew "$1"
	else
		give_up "$1 is missing, and neither apt-get nor brew is here to install it: $(purpose "$1")."
	fi
	binary=$(find "$(program "$1")") || give_up "its package is installed, but there is still no $(program "$1"): $(purpose "$1")."
	new_enough "$1" "$binary"
	say "installed $binary"
}

for name in "$@"; do
	[ -n "$(purpose "$name")" ] || give_up "do not know how to install $name."
	ensure "$name"
done
