#!/usr/bin/env bash
# Builds everything that a release consists of twice, in two clones of this commit with other paths, and under another
# umask, locale, time zone, home and number of processors. Compares all files. Takes two release builds of each program.
#
# usage: scripts/reproducible.sh [DYNAMIC STATIC [WINDOW]]
#   DYNAMIC, STATIC, WINDOW  programs that are built already: of them, only what is made of them is compared
#
# Exit status: 0 they are the same; 1 they differ, as is shown, or something can't be built.
set -eu
cd "$(dirname "$0")/.."
export PATH=$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin
programs=()
for program in "$@"; do
    programs+=("$(realpath "$program")")
done
[ -z "$(git status --porcelain)" ] || echo "reproducible: what is not committed is not built" >&2
commit=$(git rev-parse HEAD)

# Beside the tree's own target directory, which has room for such a build.
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/reproducible
rm -rf "$work"
mkdir -p "$work"
cargo_home=${CARGO_HOME:-$HOME/.cargo} rustup_home=${RUSTUP_HOME:-$HOME/.rustup}

build() { # build DIRECTORY VARIABLE=VALUE…
    local clone=$work/$1
    shift
    git clone --quiet --no-hardlinks . "$clone"
    # Both builds are of what was committed when this began, whatever is committed meanwhile.
    git -C "$clone" checkout --quiet --detach "$commit"
    env "$@" "$clone/packaging/artifacts" "$clone.artifacts" "${programs[@]}"
}

first=(TZ=UTC LC_ALL=C)
second=(TZ=Asia/Kathmandu LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} parallel=1")
if [ $# -lt 3 ]; then
    # The same crates in another directory: a symbolic link to this one would be resolved.
    mkdir -p "$work/home/crates"
    for part in config config.toml registry; do
        [ ! -e "$cargo_home/$part" ] || cp -a "$cargo_home/$part" "$work/home/crates/"
    done
    first+=(CARGO_TARGET_DIR="$work/one.target")
    # Of two processors, one: nothing may depend on what is done at the same time.
    second+=(CARGO_TARGET_DIR="$work/elsewhere" CARGO_BUILD_JOBS=1 RUSTUP_HOME="$rustup_home" HOME="$work/home"
        CARGO_HOME="$work/home/crates")
fi
(umask 022 && build one "${first[@]}")
(umask 077 && build a-second-one/below "${second[@]}")

status=0
one=$work/one.artifacts second=$work/a-second-one/below.artifacts
[ "$(ls "$one")" = "$(ls "$second")" ] || { diff <(ls "$one") <(ls "$second") && false; } || status=1
for file in "$one"/*; do
    name=${file##*/}
    if cmp -s "$file" "$second/$name"; then
        echo "same: $(sha256sum "$file" | cut -c 1-64) $name"
        continue
    fi
    status=1
    echo "DIFFERS: $name"
    if command -v diffoscope >/dev/null; then
        diffoscope --max-report-size 20000 "$file" "$second/$name" || true
    else
        cmp "$file" "$second/$name" || true
        echo "  (diffoscope would say where: apt-get install diffoscope-minimal)"
    fi
done
# What differs is kept.
[ $status != 0 ] || rm -rf "$work"
exit $status
