# The environment in which shipped programs are built: two builds of one commit are the same, wherever they are made.
# Sourced in the root of the repository, with CARGO_TARGET_DIR set.
# shellcheck shell=bash

# Nothing of the machine's own settings counts: locale and time zone order and format what tools write.
export LC_ALL=C TZ=UTC
umask 022
unset CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS CPPFLAGS LDFLAGS CARGO_INCREMENTAL
# rust-toolchain.toml and the system's packages say which compilers.
unset RUSTUP_TOOLCHAIN RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_BUILD_RUSTC CARGO_BUILD_RUSTC_WRAPPER CC CXX AR
for variable in $(compgen -e | grep -E '^(CARGO_PROFILE_|CARGO_TARGET_[A-Z0-9_]*_(RUSTFLAGS|LINKER)$)'); do
    unset "$variable"
done
# By another name, through a symbolic link, a crate would map its directory and not the one that its compilers run in:
# debug information of AWS-LC's assembly then differs.
CARGO_HOME=$(realpath -m "${CARGO_HOME:-$HOME/.cargo}")
export CARGO_HOME
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# Directories of this machine, and what panics, assertions and debug information call them. Compilers take the last
# that matches, so a directory stands below the one that holds it.
prefix_map() {
    local sysroot home commit registry
    sysroot=$(rustc --print sysroot)
    commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
    home=$CARGO_HOME
    both_names "$PWD" /culvert
    both_names "$home" /cargo
    both_names "$sysroot" /rust
    both_names "$sysroot/lib/rustlib/src/rust" "/rustc/$commit"
    both_names "$CARGO_TARGET_DIR" /target
    # The registry's directory has a hash in its name, which depends on how the registry is reached.
    for registry in "$home"/registry/src/*/; do
        [ ! -d "$registry" ] || both_names "${registry%/}" /crates
    done
}

# A directory below a symbolic link has two names: what it was called by, and what a compiler that runs in it is told.
both_names() { # both_names DIRECTORY NAME
    printf '%s\n' "$1=$2" "$(realpath -m "$1")=$2" | sort -u
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
