#!/bin/sh
# Installs what tests start themselves and what is no Python package: Prometheus, VictoriaMetrics, the Java of Spark and PostgreSQL,
# from the Debian packages prometheus, victoria-metrics, default-jre-headless and postgresql, the browser and the office that look
# at reports, from chromium and libreoffice-calc-nogui, and Azurite, by npm into the folder .servers of this checkout. Where one
# cannot be installed, the tests that need it are skipped and say why.
set -eu
cd "$(dirname "$0")/.."

azurite=3.35.0 # the newest that runs on the Node.js of Debian 12

skipped() {
    echo "install_test_servers: $1; tests that need $2 will be skipped" >&2
}

debian_packages() { # whether they are installed now; the first argument is what is skipped without them
    needed=$1
    shift
    if ! command -v apt-get >/dev/null; then
        skipped "no apt-get here" "$needed"
        return 1
    fi
    if [ "$(id -u)" = 0 ]; then
        as_root="env"
    elif command -v sudo >/dev/null; then
        as_root="sudo"
    else
        skipped "neither root nor sudo" "$needed"
        return 1
    fi
    $as_root apt-get update -qq || true
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null && return 0
    skipped "apt-get could not install $*" "$needed"
    return 1
}

if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
    debian_packages Prometheus prometheus || true
fi

if ! command -v victoria-metrics >/dev/null; then
    debian_packages VictoriaMetrics victoria-metrics || true
fi

if ! command -v java >/dev/null; then
    debian_packages Spark default-jre-headless || true # 17 in Debian 12, 21 in Debian 13; Spark runs on both
fi

if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    debian_packages PostgreSQL postgresql || true # tests start servers of their own; the package's may run or not
fi

if ! command -v chromium >/dev/null; then
    debian_packages Chromium chromium || true
fi

if ! command -v soffice >/dev/null; then
    debian_packages LibreOffice libreoffice-calc-nogui || true
fi

if ! grep -qs "\"version\": \"$azurite\"" .servers/node_modules/azurite/package.json; then
    if command -v npm >/dev/null || debian_packages Azurite nodejs npm; then
        npm install --prefix .servers --no-save --no-package-lock --no-audit --no-fund --loglevel=error "azurite@$azurite" >/dev/null ||
            skipped "npm could not install azurite" Azurite
    fi
fi
