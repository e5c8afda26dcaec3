#!/usr/bin/env bash
# Grows the corpora of the fuzz targets and makes them small again.
#
#   fuzz/run.sh                    every target for FUZZ_SECONDS (60) each
#   fuzz/run.sh cut uapi_set       these
#
# Needs cargo-fuzz (cargo install --locked cargo-fuzz) and a nightly toolchain. A failure leaves its
# input in fuzz/artifacts/TARGET: copy it to fuzz/regressions/TARGET under a name that tells what it
# is, so that `cargo test` replays it.
#
# Exit status: 0 nothing was found; 1 a target failed; 2 cargo-fuzz or the toolchain is missing, or
# the targets do not build.
set -u
cd "$(dirname "$0")" || exit 2

seconds=${FUZZ_SECONDS:-60}
# What a corpus may hold: it is committed, and replayed by every run of the tests.
files_max=200
kilobytes_max=96

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz/run.sh: this needs a nightly toolchain and cargo-fuzz:" >&2
    echo "    rustup toolchain install nightly && cargo install --locked cargo-fuzz" >&2
    exit 2
fi

# Without a sanitizer the targets run several times as fast, and nearly all that they reach forbids
# unsafe code. For the vector code of `aead`: FUZZ_SANITIZER=address fuzz/run.sh aead_batch
cargo +nightly fuzz build --sanitizer "${FUZZ_SANITIZER:-none}" || exit 2
programs=target/$(rustc +nightly -vV | sed -n 's/^host: //p')/release

# Where every corpus begins.
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
cargo run --quiet -p culvert-fuzz-targets --manifest-path ../Cargo.toml --example seeds "$seeds" || exit 2

# Keeps of a corpus what adds coverage, and of that evenly spread sizes up to the limits.
minimise() { # minimise TARGET
    local corpus=corpus/$1 kept
    kept=$(mktemp -d)
    "$programs/$1" -merge=1 -max_len=4096 "$kept" "$corpus" "$seeds/$1" 2>/dev/null || return 1
    rm -rf "$corpus"
    mkdir -p "$corpus"
    find "$kept" -type f -printf '%s %f\n' | sort -n |
        awk -v files="$files_max" -v bytes="$((kilobytes_max * 1024))" '
            { size[NR] = $1; name[NR] = $2 }
            END {
                step = NR > files ? NR / files : 1
                for (place = 1; place <= NR; place += step) {
                    at = int(place)
                    total += size[at]
                    if (total <= bytes) print name[at]
                }
            }' |
        while read -r name; do cp "$kept/$name" "$corpus/$name"; done
    rm -rf "$kept"
    echo "$1: $(find "$corpus" -type f | wc -l) inputs, $(du -sk --apparent-size "$corpus" | cut -f1) KiB"
}

status=0
targets=$*
[ -n "$targets" ] || targets=$(cargo +nightly fuzz list)
for target in $targets; do
    mkdir -p "corpus/$target" "artifacts/$target"
    options=(-max_total_time="$seconds" -max_len=2048 -artifact_prefix="artifacts/$target/")
    [ ! -e "dictionaries/$target.dict" ] || options+=(-dict="dictionaries/$target.dict")
    echo "fuzzing $target for $seconds s …"
    log=artifacts/$target.log
    if "$programs/$target" "${options[@]}" "corpus/$target" "$seeds/$target" >"$log" 2>&1; then
        sed -n 's/^Done/done:/p' "$log"
        minimise "$target" || status=1
    else
        tail -n 30 "$log" >&2
        echo "fuzz/run.sh: $target failed: see fuzz/artifacts/$target" >&2
        status=1
    fi
done
exit "$status"
