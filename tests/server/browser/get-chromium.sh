#!/bin/sh
# Install chromium for the tests of the page if it is missing and this is a Debian system where we may.
[ -n "$CHROMIUM" ] && exit 0
command -v chromium >/dev/null 2>&1 && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || exit 0
echo "Installing chromium for the tests of the page."
install="apt-get install --yes --quiet=2 --no-install-recommends chromium fonts-dejavu-core"
export DEBIAN_FRONTEND=noninteractive
$install >/dev/null 2>&1 || { apt-get update --quiet=2 && $install >/dev/null; } || echo "It could not be installed." >&2
exit 0
