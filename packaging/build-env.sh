# The environment in which shipped programs are built: two builds of one commit are the same, wherever they are made.
# Sourced in the root of the repository, with CARGO_TARGET_DIR set.
# shellcheck shell=bash

# Nothing of the machine's own settings counts: locale and time zone order and format what tools write.
export LC_ALL=C TZ=UTC
umask 022
unset CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS CPPFLAGS LDFLAGS CARGO_INCREMENTAL
for variable in $(compgen -e | grep -E '^(CARGO_PROFILE_|CARGO_TARGET_[A-Z0-9_]*_(RUSTFLAGS|LINKER)$)'); do
    unset "$variable"
done
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# Directories of this machine, and what panics, assertions and debug information call them. Compilers take the last
# that matches, so a directory stands below the one that holds it.
prefix_map() {
    local sysroot release commit
    sysroot=$(rustc --print sysroot)
    commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
    release=${CARGO_HOME:-$HOME/.cargo}
    printf '%s=%s\n' \
        "$PWD" /culvert \
        "$release" /cargo \
        "$sysroot" /rust \
        "$sysroot/lib/rustlib/src/rust" "/rustc/$commit" \
        "$CARGO_TARGET_DIR" /target
    # The registry's directory has a hash in its name, which depends on how the registry is reached.
    local registry
    for registry in "$release"/registry/src/*/; do
        [ ! -d "$registry" ] || printf '%s=%s\n' "${registry%/}" /crates
    done
}

# The build id names the debug information that belongs to a program.
RUSTFLAGS="-C link-arg=-Wl,--build-id=sha1" CFLAGS=""
while read -r mapping; do
    case $mapping in
    *[[:space:]]*)
        echo "build-env.sh: flags of compilers cannot have the blank in $mapping: build in another directory" >&2
        exit 1
        ;;
    esac
    RUSTFLAGS+=" --remap-path-prefix=$mapping"
    CFLAGS+=" -ffile-prefix-map=$mapping"
done < <(prefix_map)
CFLAGS=${CFLAGS# }
export RUSTFLAGS CFLAGS CXXFLAGS=$CFLAGS
