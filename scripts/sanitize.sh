#!/usr/bin/env bash
# Runs the tests of all crates with unsafe code, and the replay of every fuzz target's corpus, with AddressSanitizer,
# which finds what Miri can't run: assembly's results, system calls, what C code writes into memory of Rust.
#
# AWS-LC itself is built without it. As root: tests of `tun`, `bpf` and `udp` make devices and namespaces.
#
# Exit status: 0 nothing was found; 1 a test failed; 2 the toolchain is missing.
set -u
cd "$(dirname "$0")/.." || exit 2

host=$(rustc +nightly -vV 2>/dev/null | sed -n 's/^host: //p')
if [ -z "$host" ]; then
    echo "scripts/sanitize.sh: this needs a nightly toolchain: rustup toolchain install nightly" >&2
    exit 2
fi

export CARGO_TARGET_DIR=target/sanitize CARGO_INCREMENTAL=0
export RUSTFLAGS="-Zsanitizer=address"
# SQLite is one C file, built with the sanitizer too, in which two tables of functions have one name. That ends every program
# that links it before its first line.
export ASAN_OPTIONS=detect_odr_violation=0

status=0
packages=()
for package in aead bpf packet tun udp; do
    packages+=(--package "culvert-$package")
done
cargo +nightly test --locked --target "$host" "${packages[@]}" --lib --tests --no-fail-fast || status=1
cargo +nightly test --locked --target "$host" --package culvert-fuzz-targets --no-fail-fast || status=1
exit $status
