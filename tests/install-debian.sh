#!/bin/sh
# Installs Prometheus and promtool from Debian's package; the tests scrape with a real Prometheus.
set -eu
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
command -v apt-get >/dev/null || {
    echo "The tests need prometheus and promtool: install them, then try again." >&2
    exit 1
}
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# The service would occupy port 9090 and scrape by itself.
$sudo apt-get install -y -qq --no-install-recommends prometheus >/dev/null
