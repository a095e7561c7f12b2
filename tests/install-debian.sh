#!/bin/sh
# Installs real parts that the tests use from Debian's packages: prometheus (with promtool) to scrape
# with, chromium to open pages in.
set -eu
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
command -v apt-get >/dev/null || {
    echo "The tests need $*: install that, then try again." >&2
    exit 1
}
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# No recommended packages: the tests start what they need themselves.
$sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
