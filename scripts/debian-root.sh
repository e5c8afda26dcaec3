#!/usr/bin/env bash
# Makes the root directory of a small Debian with systemd, for tests of the packages: below target/, once.
# Says where it is; with --is-there, only if it is.
#
# usage: scripts/debian-root.sh [desktop] [--is-there]
#   desktop  one with what the package culvert-desktop depends on, a display without a screen, and what operates the
#            window by AT-SPI
#
# By mmdebstrap, which does what debootstrap does in half of the time. Tests boot it by systemd-nspawn with a
# layer above it that goes away with them.
set -eu
cd "$(dirname "$0")/.."

suite=bookworm
# What the packages depend on and recommend, systemd-resolved, and what a test looks with.
packages=systemd,systemd-sysv,dbus,polkitd,systemd-resolved,nftables,iproute2,curl
kind=
if [ "${1:-}" = desktop ]; then
    kind=-desktop
    packages+=,libgtk-4-1,libadwaita-1-0,librsvg2-common,passwd,xvfb,at-spi2-core,python3-gi,gir1.2-atspi-2.0,imagemagick
    shift
fi
target=${CARGO_TARGET_DIR:-target}
# Another list, or another script, makes another root.
root=$target/debian-root/$(sha256sum "$0" | cut -c 1-12)$kind

if [ ! -d "$root" ] && [ "${1:-}" = --is-there ]; then
    exit 1
fi
if [ ! -d "$root" ]; then
    mkdir -p "${root%/*}"
    log=$(mktemp)
    unfinished=$root.unfinished
    trap 'rm -rf "$log" "$unfinished"' EXIT
    if ! mmdebstrap --variant=essential --mode=root --format=directory --include="$packages" \
        --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/locale/*' \
        --aptopt='Acquire::Languages "none"' "$suite" "$unfinished" >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        echo "debian-root.sh: mmdebstrap failed, see above: are Debian's packages reachable?" >&2
        exit 1
    fi
    # Each machine that boots from it is called as it is told, and is one of its own. An empty id says that
    # this is not its first start, at which it would ask questions.
    rm -f "$unfinished/etc/hostname"
    : >"$unfinished/etc/machine-id"
    mv "$unfinished" "$root"
fi
realpath "$root"
