#!/usr/bin/env bash
# Runs unit tests in Miri, which finds undefined behaviour of unsafe code that a sanitizer can't see: aliasing,
# uninitialised and misaligned reads.
#
# These are pure crates whose tests do not take hours there, and the vector code of `aead` and `packet`. Miri runs neither
# assembly nor C code (AWS-LC, which `session` stands on), nor the system calls of `bpf`, `tun` and `udp`.
#
# Exit status: 0 nothing was found; 1 a test failed; 2 Miri is missing.
set -u
cd "$(dirname "$0")/.." || exit 2

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "scripts/miri.sh: this needs Miri: rustup toolchain install nightly --component miri,rust-src" >&2
    exit 2
fi

# Miri is some hundred times slower than the processor.
export PROPTEST_CASES=${PROPTEST_CASES:-2}
export CARGO_TARGET_DIR=target/miri CARGO_INCREMENTAL=0
# Property tests read their environment.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}"
# What Miri takes the processor to have.
export RUSTFLAGS="-Ctarget-feature=+avx2,+avx512f,+avx512bw,+avx512vl,+avx512ifma,+aes,+vaes,+pclmulqdq,+vpclmulqdq"

status=0
packages=()
for package in ids dns path uapi wire packet; do
    packages+=(--package "culvert-$package")
done
cargo +nightly miri test --locked "${packages[@]}" --lib || status=1
cargo +nightly miri test --locked --package culvert-packet --test packet checksum || status=1
cargo +nightly miri test --locked --package culvert-aead --lib -- vector::aes_gcm vector::chacha20_poly1305 || status=1
exit $status
