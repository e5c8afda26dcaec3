#!/usr/bin/env bash
# Runs the window in a session of its own, and has tests/window.py operate it as a screen reader does.
# Pictures of each state are left in target/pictures.
#
# usage: desktop/tests/window.sh [NAME…]   the tests with these names, otherwise all
#        desktop/tests/window.sh --bench   measures it by tests/bench.py
set -eu
cd "$(dirname "$0")/.."

script=window.py
[ "${1:-}" != --bench ] || { script=bench.py; shift; }
program=${CULVERT_DESKTOP:-$PWD/target/debug/culvert-desktop}
[ -x "$program" ] || { echo "window.sh: no $program: run 'make desktop'" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p target/pictures
tests/session.sh "$work" /usr/bin/python3 "tests/$script" "$program" "$work" "$PWD/target/pictures" "$@"
