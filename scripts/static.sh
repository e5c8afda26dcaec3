#!/usr/bin/env bash
# One program that needs no library of its machine: target/static/culvert, and its debug information beside it, which
# debuggers and profilers find by themselves. It is linked with the static C library of this machine (glibc 2.34 or
# later, which finds names in /etc/hosts and by DNS without loading anything), and tried in a root directory that holds
# nothing else.
#
# usage: scripts/static.sh [PROGRAM DIR [NAME]]
#   PROGRAM  one that is built already
#   DIR      where it goes, under NAME (default: culvert)
#
# Exit status: 0 it is there and runs; 1 it can't be built, or needs something.
set -eu
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin:/sbin

program=${1:-}
[ -n "$program" ] || program=$(scripts/shipped.sh static)
dir=$(realpath -m "${2:-${CARGO_TARGET_DIR:-target}/static}")
name=${3:-culvert}
mkdir -p "$dir"
objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$dir/$name.debug"
chmod 644 "$dir/$name.debug"
install -m 755 "$program" "$dir/$name"
strip --strip-all "$dir/$name"
(cd "$dir" && objcopy --add-gnu-debuglink="$name.debug" "$name")

if [ "$(id -u)" = 0 ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    cp "$dir/$name" "$root/culvert"
    chroot "$root" /culvert --version
else
    "$dir/$name" --version
fi
echo "static: $dir/$name, $(stat -c %s "$dir/$name") bytes"
