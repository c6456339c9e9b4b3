#!/bin/sh
# Installs the FOCUS validator from PyPI into .servers/focus-validator, an environment of its own: it needs Python 3.12 and older
# versions of what we use. Where either cannot be had, the tests that need it are skipped and say why.
set -eu
cd "$(dirname "$0")/.."

folder=.servers/focus-validator
wanted="focus-validator==2.2.1 pyarrow==20.0.0" # a newer pyarrow refuses the numpy 1 that this validator asks for

skipped() {
    rm -rf "$folder"
    echo "install_focus_validator: $1; tests that need the FOCUS validator will be skipped" >&2
    exit 0
}

runs() { # whether it is a Python 3.12 that can make environments
    "$1" -c 'import sys, ensurepip; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null
}

python312() { # prints the first that runs: on the path, of pyenv, of uv
    for python in python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3.12 "$(uv python find 3.12 2>/dev/null)"; do
        if [ -n "$python" ] && runs "$python"; then
            echo "$python"
            return
        fi
    done
}

if [ "$(cat "$folder/wanted" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

python=$(python312)
if [ -z "$python" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3.12 python3.12-venv >/dev/null 2>&1 || true
    python=$(python312)
fi
[ -n "$python" ] || skipped "no Python 3.12 here"

rm -rf "$folder"
# shellcheck disable=SC2086
"$python" -m venv "$folder" && "$folder/bin/pip" install -q $wanted || skipped "pip could not install $wanted"
echo "$wanted" >"$folder/wanted"
