#!/usr/bin/env bash
# The program for arm64 processors, made on a machine of another kind: Debian's cross compiler builds it, and qemu runs the
# tests of crates that need no kernel. Emulation says nothing about speed.
#
# usage: scripts/arm64.sh build [PROFILE]   the program, of the profile dev (default) or release; prints where it is
#        scripts/arm64.sh build-desktop [PROFILE]   the same of the window for desktops, with GTK for arm64 from Debian
#        scripts/arm64.sh test              unit and property tests of the pure crates, in qemu
#        scripts/arm64.sh test-if-there     the same; without the tools it says so, and succeeds
#
# `scripts/setup.sh arm64` installs the tools. Exit status: 0 done; 1 it failed, or a tool is missing; 2 wrong use.
set -eu
cd "$(dirname "$0")/.."
export PATH=$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin

target=aarch64-unknown-linux-gnu
compiler=aarch64-linux-gnu-gcc
libraries=/usr/aarch64-linux-gnu
emulator=qemu-aarch64-static
# Cases of each property test: qemu is some ten times slower than the processor.
PROPTEST_CASES=${PROPTEST_CASES:-16}

missing() {
    [ -d "$(rustc --print target-libdir --target $target)" ] || printf ' the standard library of %s,' $target
    [ "$(uname -m)" != aarch64 ] || return 0
    command -v $compiler >/dev/null || printf ' %s,' $compiler
    [ -e $libraries/include/stdio.h ] || printf ' its C library,'
    [ "$1" != build-desktop ] || command -v mmdebstrap >/dev/null || printf ' mmdebstrap,'
    [ "$1" != test ] || command -v $emulator >/dev/null || printf ' %s,' $emulator
}

case ${1:-} in
build | build-desktop | test) what=$1 ;;
test-if-there) what=test ;;
*)
    sed -n '5,8s/^# //p' "$0" >&2
    exit 2
    ;;
esac
lacks=$(missing "$what")
if [ -n "$lacks" ]; then
    if [ "$1" = test-if-there ]; then
        echo "arm64: NOT tested: this machine lacks${lacks%,} (scripts/setup.sh arm64)"
        exit 0
    fi
    echo "arm64.sh: this machine lacks${lacks%,}: run scripts/setup.sh arm64" >&2
    exit 1
fi
if [ "$(uname -m)" != aarch64 ]; then
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -L $libraries"
fi

if [ "$what" = test ]; then
    export PROPTEST_CASES
    packages=()
    while read -r name; do
        packages+=(--package "$name")
    done < <(cargo xtask pure)
    [ "${#packages[@]}" -gt 0 ] || exit 1
    cargo test --locked --target $target "${packages[@]}" --lib
    # Each cipher with and without the instructions of the processor, against another implementation.
    cargo test --locked --target $target --package culvert-aead --tests
    exit
fi

profile=${2:-dev}
directory=$profile
[ "$profile" != dev ] || directory=debug
if [ "$what" = build-desktop ]; then
    if [ "$(uname -m)" != aarch64 ]; then
        # Debian can't install these beside those of this machine. They are unpacked, and nothing of them runs.
        root=$(realpath "${CARGO_TARGET_DIR:-target}")/arm64-gtk
        # One without the versions is of an earlier commit.
        if [ ! -e "$root/shlibs" ]; then
            rm -rf "$root" "$root.unfinished"
            log=$(mktemp)
            # A Debian package of the window depends on the versions that these packages say of their libraries.
            # shellcheck disable=SC2016
            versions='export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG; cd "$1" && apt-get --quiet download libadwaita-1-0 libc6 \
                libcairo-gobject2 libcairo2 libgcc-s1 libgdk-pixbuf-2.0-0 libglib2.0-0 libgraphene-1.0-0 libgtk-4-1 \
                libpango-1.0-0 &&
                for package in *.deb; do dpkg-deb --info "$package" shlibs >>shlibs && rm "$package"; done'
            mmdebstrap --arch=arm64 --variant=extract --include=libadwaita-1-dev,libc6-dev \
                --aptopt='Acquire::Languages "none"' --extract-hook="$versions" \
                bookworm "$root.unfinished" >"$log" 2>&1 || {
                tail -n 15 "$log" >&2
                echo "arm64.sh: mmdebstrap failed, see above: are Debian's packages reachable?" >&2
                exit 1
            }
            rm -f "$log"
            mv "$root.unfinished" "$root"
        fi
        libraries=$root/usr/lib/aarch64-linux-gnu
        export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$root
        export PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$root/usr/share/pkgconfig
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-Clink-arg=--sysroot=$root -Clink-arg=-Wl,-rpath-link,$libraries"
    fi
    cargo build --locked --target $target --profile "$profile" --manifest-path desktop/Cargo.toml --workspace >&2
    echo "${CARGO_TARGET_DIR:-desktop/target}/$target/$directory/culvert-desktop"
    exit
fi
cargo build --locked --target $target --profile "$profile" --package culvert >&2
echo "${CARGO_TARGET_DIR:-target}/$target/$directory/culvert"
