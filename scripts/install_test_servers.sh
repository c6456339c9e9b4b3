#!/bin/sh
# Installs the server that tests start themselves: Prometheus, from the Debian package of that name. Where it cannot be
# installed, the tests that need it are skipped and say why.
set -eu

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "install_test_servers: no apt-get here; tests that need Prometheus will be skipped" >&2
    exit 0
fi
if [ "$(id -u)" = 0 ]; then
    as_root="env"
elif command -v sudo >/dev/null; then
    as_root="sudo"
else
    echo "install_test_servers: neither root nor sudo; tests that need Prometheus will be skipped" >&2
    exit 0
fi
$as_root apt-get update -qq
$as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus >/dev/null
