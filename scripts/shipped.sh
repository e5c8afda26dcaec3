#!/usr/bin/env bash
# Builds the program as it is shipped: by the lock file, and without a path of this machine in it, so that others get
# the same bytes (packaging/build-env.sh). Debug information is still in it. Prints where the program is.
#
# usage: scripts/shipped.sh dynamic|static|desktop
#   dynamic  linked with the C library of this machine
#   static   linked with nothing
#   desktop  the window, linked with the GTK of this machine
set -eu
cd "$(dirname "$0")/.."
export PATH=$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin

kind=${1:-}
case $kind in
dynamic | static) package=culvert manifest=Cargo.toml ;;
desktop) package=culvert-desktop manifest=desktop/Cargo.toml ;;
*)
    sed -n '5,8s/^# //p' "$0" >&2
    exit 2
    ;;
esac
# Apart from other builds: their flags differ.
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/shipped
export CARGO_TARGET_DIR
# Settings of cargo may name another directory for intermediate files, whose path no flag would map.
export CARGO_BUILD_BUILD_DIR=$CARGO_TARGET_DIR
# shellcheck source=packaging/build-env.sh
. packaging/build-env.sh

host=$(rustc -vV | sed -n 's/^host: //p')
[ "$kind" != static ] || RUSTFLAGS+=" -C target-feature=+crt-static"
# With --target the flags are for the program alone, so that both kinds share macros and build scripts.
cargo build --release --locked --manifest-path "$manifest" -p "$package" --target "$host" >&2
program=$CARGO_TARGET_DIR/$kind/$package
install -D -m 755 "$CARGO_TARGET_DIR/$host/release/$package" "$program"

if [ "$kind" = static ] && { readelf -lW "$program" | grep -q INTERP || readelf -dW "$program" | grep -q NEEDED; }; then
    echo "shipped.sh: $program still needs libraries: is libc6-dev (libc.a) there?" >&2
    exit 1
fi
if ! packaging/check-paths "$program"; then
    exit 1
fi
echo "$program"
