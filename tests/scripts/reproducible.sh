#!/usr/bin/env bash
# Tests that programs built as they are shipped do not tell where they were built. A small program of Rust and C stands
# for Culvert, whose two builds take the better part of an hour: `make reproducible`.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/lib.sh
. tests/scripts/lib.sh
root=$PWD

# The places where a path gets into a program: panics, file!(), __FILE__, and debug information of both languages.
make_program() { # make_program DIRECTORY
    mkdir -p "$1/src" "$1/packaging"
    cp packaging/build-env.sh packaging/check-paths "$1/packaging/"
    cat >"$1/Cargo.toml" <<'TOML'
[package]
name = "small"
version = "0.1.0"
edition = "2024"
[workspace]
[profile.dev]
debug = "full"
TOML
    cat >"$1/build.rs" <<'RUST'
use std::{env, path::Path, process::Command};
/// As the crate `cc` does it: absolute paths, the flags of CFLAGS, debug information.
fn main() {
    let (source, out) = (env::var("CARGO_MANIFEST_DIR").unwrap(), env::var("OUT_DIR").unwrap());
    let flags = env::var("CFLAGS").unwrap_or_default();
    let object = Path::new(&out).join("part.o");
    let mut compile = Command::new("cc");
    compile.args(flags.split_whitespace()).args(["-g", "-c", "-o"]).arg(&object);
    assert!(compile.arg(Path::new(&source).join("src/part.c")).status().unwrap().success());
    println!("cargo::rustc-link-arg={}", object.display());
    println!("cargo::rustc-env=GENERATED={}/generated.rs", out);
    std::fs::write(Path::new(&out).join("generated.rs"), "pub fn place() -> &'static str { file!() }").unwrap();
}
RUST
    echo 'const char *part_place(void) { return __FILE__; }' >"$1/src/part.c"
    cat >"$1/src/main.rs" <<'RUST'
include!(env!("GENERATED"));
unsafe extern "C" { safe fn part_place() -> *const std::ffi::c_char; }
fn main() {
    let part = unsafe { std::ffi::CStr::from_ptr(part_place()) };
    println!("{} {} {}", file!(), place(), part.to_str().unwrap());
    let arguments: Vec<String> = std::env::args().collect();
    assert!(arguments.len() < 2, "{}", arguments[1]);
}
RUST
    # A second workspace in a directory of the first, as the window is.
    mkdir "$1/window"
    cp -r "$1/src" "$1/build.rs" "$1/Cargo.toml" "$1/window/"
    git -C "$1" init --quiet
    git -C "$1" add .
    GIT_AUTHOR_DATE="1800000000 +0000" GIT_COMMITTER_DATE="1800000000 +0000" git -C "$1" -c user.name=t \
        -c user.email=t@localhost -c commit.gpgsign=false commit --quiet -m small
}

# What env!("GENERATED") holds is in the program's text only while it is built: include! takes it apart.
build() { # build DIRECTORY TARGET_DIR ENVIRONMENT_FILE [MANIFEST NAME]: the program is DIRECTORY.NAME
    (
        cd "$1" || exit 1
        export CARGO_TARGET_DIR=$2
        # shellcheck source=/dev/null
        . "$3"
        cargo build --quiet --offline --manifest-path "${4:-Cargo.toml}" --target "$(rustc -vV | sed -n 's/^host: //p')"
    )
    cp "$2/$(rustc -vV | sed -n 's/^host: //p')/debug/small" "$1.${5:-program}"
}

check_paths() { # check_paths DIRECTORY TARGET_DIR
    CARGO_TARGET_DIR=$2 "$1/packaging/check-paths" "$1.${3:-program}"
}

make_program "$work/one"
make_program "$work/a-second/below"
# A directory that is called by another name than its own.
mkdir "$work/third"
ln -s "$work/third" "$work/link"
make_program "$work/link/below"
(umask 022 && build "$work/one" "$work/one/target" packaging/build-env.sh)
(umask 077 && TZ=Asia/Kathmandu build "$work/a-second/below" "$work/elsewhere" packaging/build-env.sh)
build "$work/link/below" "$work/link/target" packaging/build-env.sh
expect "two builds in two directories are the same" \
    0 "" cmp "$work/one.program" "$work/a-second/below.program"
expect "so is one in a directory below a symbolic link" \
    0 "" cmp "$work/one.program" "$work/link/below.program"
build "$work/one" "$work/one/target" packaging/build-env.sh window/Cargo.toml window
(umask 077 && build "$work/a-second/below" "$work/elsewhere" packaging/build-env.sh window/Cargo.toml window)
expect "and so is the program of a workspace in a directory of each" \
    0 "" cmp "$work/one.window" "$work/a-second/below.window"
expect "which has no path of this machine either" \
    0 "" check_paths "$work/one" "$work/one/target" window
expect "the build has no path of this machine" \
    0 "" check_paths "$work/one" "$work/one/target"
expect "it says its own paths by other names" \
    0 "src/main.rs /target/" "$work/one.program"
expect "and those of C" \
    0 "/culvert/src/part.c" "$work/one.program"

# Crates such as aws-lc-sys map the directory that cargo calls theirs, and their compilers are told the real one.
crates_by_link() (
    cd "$work/one" || exit 1
    ln -s "${CARGO_HOME:-$HOME/.cargo}" "$work/crates"
    export CARGO_HOME=$work/crates CARGO_TARGET_DIR=$work/one/target
    # shellcheck source=/dev/null
    . packaging/build-env.sh
    echo "crates: $CARGO_HOME"
)
expect "crates that are reached by a symbolic link are called by their own directory" \
    0 "crates: $(realpath "${CARGO_HOME:-$HOME/.cargo}")" crates_by_link

# A cargo that builds nothing, and tells by its status which kind of linking it was asked for.
mkdir "$work/no-cargo"
cat >"$work/no-cargo/cargo" <<'SH'
#!/bin/sh
echo "cargo $*"
case $RUSTFLAGS in *crt-static*) exit 3 ;; esac
exit 4
SH
chmod +x "$work/no-cargo/cargo"
shipped() { PATH=$work/no-cargo:$PATH CARGO_TARGET_DIR=$work/shipped scripts/shipped.sh "$1"; }
expect "the static program is linked with nothing" \
    3 "--manifest-path Cargo.toml -p culvert " shipped static
expect "the packaged program is linked with libraries" \
    4 "--manifest-path Cargo.toml -p culvert " shipped dynamic
expect "and so is the window, of its own workspace" \
    4 "--manifest-path desktop/Cargo.toml -p culvert-desktop " shipped desktop

make_program "$work/plain"
build "$work/plain" "$work/plain/target" /dev/null
expect "a build without the flags has paths, and is refused" \
    1 "has a path of this machine in it" check_paths "$work/plain" "$work/plain/target"
expect "such a build differs" \
    1 "differ" cmp "$work/one.program" "$work/plain.program"

make_program "$work/a blank"
expect "a directory with a blank in its name is refused" \
    1 "flags of compilers cannot have the blank" build "$work/a blank" "$work/a blank/target" packaging/build-env.sh
cd "$root" || exit 1
finish reproducible
