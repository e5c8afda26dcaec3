#!/usr/bin/env bash
# One program that needs no library of its machine: target/static/culvert. Linked with the static C library of
# this machine (glibc 2.34 or later, which finds names in /etc/hosts and by DNS without loading anything), and
# tried in a root directory that holds nothing else.
#
# Exit status: 0 it is there and runs; 1 it can't be built, or needs something.
set -eu
cd "$(dirname "$0")/.."
export PATH=$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin

target=$(rustc -vV | sed -n 's/^host: //p')
dir=${CARGO_TARGET_DIR:-target}
# With --target the flags are for the program alone, not for what runs while it is built.
RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked -p culvert --target "$target"
install -D -m 755 "$dir/$target/release/culvert" "$dir/static/culvert"
# Names of functions stay, for whoever profiles.
strip --strip-debug "$dir/static/culvert"

if readelf -lW "$dir/static/culvert" | grep -q INTERP || readelf -dW "$dir/static/culvert" | grep -q NEEDED; then
    echo "static.sh: $dir/static/culvert still needs libraries: is libc6-dev (libc.a) there?" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    cp "$dir/static/culvert" "$root/"
    chroot "$root" /culvert --version
else
    "$dir/static/culvert" --version
fi
echo "static: $dir/static/culvert, $(stat -c %s "$dir/static/culvert") bytes"
