#!/usr/bin/env bash
# What tests of the packages install, below target/packages-under-test: the program under test, in two
# versions, and a Debian to install them in.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
dir=$target/packages-under-test

scripts/debian-root.sh >/dev/null
# Not compressed, and with the names of its functions: it is installed from here, once.
export CULVERT_DEB_OPTIONS=-Znone DEB_BUILD_OPTIONS=nostrip
rm -rf "$dir"
packaging/build "$target/debug/culvert" "$dir/old" 0.0.1 >/dev/null
packaging/build "$target/debug/culvert" "$dir/new" >/dev/null
