#!/usr/bin/env bash
# Runs the unit tests of crates that call no C code in Miri, which finds undefined behaviour of unsafe code that
# a sanitizer can't see: aliasing, uninitialised and misaligned reads.
#
# `aead` (AWS-LC), `bpf`, `udp` and `tun` (system calls) can't run there.
#
# Exit status: 0 nothing was found; 1 a test failed; 2 Miri is missing.
set -u
cd "$(dirname "$0")/.." || exit 2

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "scripts/miri.sh: this needs Miri: rustup toolchain install nightly --component miri" >&2
    exit 2
fi

# Miri is some hundred times slower than the processor.
export PROPTEST_CASES=${PROPTEST_CASES:-4}
export CARGO_TARGET_DIR=target/miri
# Property tests read their environment.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}"

cargo +nightly miri test --locked -p culvert-ids -p culvert-packet -p culvert-fair -p culvert-dns -p culvert-path --lib
