# Tools that audits need, built once below target/tools. Sourced in the root of the repository.
# shellcheck shell=bash

tools=$PWD/target/tools

# Sets `tool` to the program, which is built if it is missing. `work` is a directory for its log.
build_tool() { # build_tool NAME VERSION
    local name=$1 version=$2
    local root=$tools/$name-$version
    tool=$root/bin/$name
    [ ! -x "$tool" ] || return 0
    # Audits may begin at the same time: one builds, and the others find it built.
    mkdir -p "$tools"
    local lock
    exec {lock}>"$tools/lock" && flock "$lock" || return 1
    if [ -x "$tool" ]; then
        exec {lock}>&-
        return 0
    fi
    echo "building $name $version (a few minutes, once) …"
    # Built to be used a few times: optimising it would take more than half of the time.
    if ! CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_DEBUG=0 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 CARGO_TARGET_DIR=$tools/build \
        cargo install --quiet --locked --no-track --version "$version" --root "$root" "$name" >"${work:?}/log" 2>&1; then
        tail -n 15 "$work/log" >&2
        echo "${0##*/}: $name cannot be built: is the crate registry reachable?" >&2
        return 1
    fi
    rm -rf "$tools/build"
    exec {lock}>&-
}
