#!/usr/bin/env bash
# What tests of the window in the lab install, below target/desktop-under-test: packages of the programs of the dev
# profile, what operates the window, and a Debian to install them in.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
dir=$target/desktop-under-test

scripts/debian-root.sh desktop >/dev/null
# Not compressed, and with the names of its functions: it is installed from here, once.
export CULVERT_DEB_OPTIONS=-Znone DEB_BUILD_OPTIONS=nostrip
rm -rf "$dir"
mkdir -p "$dir/tests"
packaging/build "$target/debug/culvert" "$dir" >/dev/null
packaging/build-desktop "${CULVERT_DESKTOP:-desktop/target/debug/culvert-desktop}" "$dir" >/dev/null
# Other users than the one who builds read them.
install -m 644 desktop/tests/harness.py desktop/tests/drive.py "$dir/tests/"
install -m 755 desktop/tests/session.sh "$dir/tests/"
chmod 755 "$dir" "$dir/tests"
