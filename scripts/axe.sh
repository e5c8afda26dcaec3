#!/usr/bin/env bash
# Fetches axe-core, the rules by which browser tests judge whether everybody can use a page, into
# target/tools/axe-core, at a pinned version and only if it is the file that was looked at here. It is under
# MPL-2.0, so it stays a tool: it is neither committed nor shipped.
#
# Exit status: 0 it is there; 1 npm is missing, the registry can't be reached, or the file is another one.
set -u
cd "$(dirname "$0")/.." || exit 1

version=4.14.1
sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
dir=$PWD/target/tools/axe-core

is_right() { echo "$sha256  $1" | sha256sum --check --status 2>/dev/null; }

! is_right "$dir/axe.min.js" || exit 0
command -v npm >/dev/null 2>&1 || {
    echo "axe.sh: npm is missing, which fetches what browser tests need: run scripts/setup.sh" >&2
    exit 1
}
mkdir -p "$dir"
work=$(mktemp -d "$dir/fetch-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
if ! (cd "$work" && npm pack --silent "axe-core@$version" >/dev/null && tar -xzf axe-core-*.tgz package/axe.min.js); then
    echo "axe.sh: axe-core $version can't be fetched: is the npm registry reachable?" >&2
    exit 1
fi
is_right "$work/package/axe.min.js" || {
    echo "axe.sh: axe-core $version is another file than the one that was looked at" >&2
    exit 1
}
mv "$work/package/axe.min.js" "$dir/axe.min.js"
