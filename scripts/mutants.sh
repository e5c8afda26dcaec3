#!/usr/bin/env bash
# Breaks the code on purpose, one small change at a time, and tells which changes no test notices
# ("survivors"). Survivors that stay are in tests/mutants.txt, each with its reason.
#
#   scripts/mutants.sh session          all of crates/session   (some 600 mutants, about an hour)
#   scripts/mutants.sh policy           all of crates/policy    (some 1,100, about two hours)
#   scripts/mutants.sh sample [K]       every sixth mutant of the portal's service and the store, from the
#                                       Kth on (0 to 5, 0 if not said): some 320, about six hours
#
# The times are those of two cores with nothing else to do. What was found lies in target/mutants/WHAT.
#
# Exit status: 0 few enough survive and each is in tests/mutants.txt; 1 more do, or others; 2 wrong use;
# 4 cargo-mutants cannot be built.
set -u
cd "$(dirname "$0")/.." || exit 2

version=27.1.0
root=$PWD/target/tools/cargo-mutants-$version
known=tests/mutants.txt
# Longer than any of these tests takes on a busy machine; a mutant that hangs costs this much.
timeout_s=60

what=${1:-}
case $what in
session | policy)
    limit_percent=3
    chosen=(--package "culvert-$what")
    ;;
sample)
    limit_percent=10
    chosen=(--package culvert-store --package culvert-portal
        --file 'crates/store/src/**' --file 'crates/portal/src/service/**'
        --shard "${2:-0}/6" --sharding round-robin)
    # Tests of the portal start whole portals.
    timeout_s=600
    ;;
*)
    sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
    ;;
esac

if [ ! -x "$root/bin/cargo-mutants" ]; then
    echo "building cargo-mutants $version (a minute, once) …"
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR=$root/build \
        cargo install --quiet --locked --no-track --version "$version" --root "$root" cargo-mutants || {
        echo "cargo-mutants cannot be built: is the crate registry reachable?" >&2
        exit 4
    }
    rm -rf "$root/build"
fi

# In a copy of the tree, never in place: an interrupted run leaves nothing broken behind. The same random
# cases each time, so that a mutant that survived is the test's doing and not chance.
found=$PWD/target/mutants/$what
mkdir -p "$found"
PROPTEST_RNG_SEED=1 CARGO_INCREMENTAL=1 "$root/bin/cargo-mutants" mutants --profile mutants --colors never \
    --timeout "$timeout_s" --output "$found" "${chosen[@]}"

# Without line and column, which every change moves.
nameless() { sed -E 's/:[0-9]+:[0-9]+: /: /' "$1" | sort; }
count() { wc -l <"$found/mutants.out/$1.txt"; }
survivors=$(count missed)
# A mutant that makes the tests hang is noticed as one that makes them fail.
noticed=$(($(count caught) + $(count timeout)))
tried=$((survivors + noticed))
[ "$tried" -gt 0 ] || { echo "no mutant was tried" >&2; exit 1; }

echo "$what: $tried mutants, $survivors survive ($((survivors * 1000 / tried)) in a thousand; $((limit_percent * 10)) may)"
unexplained=$(comm -23 <(nameless "$found/mutants.out/missed.txt") \
    <(sed -nE 's/^(crates[^#]*[^# ]) *#.*/\1/p' "$known" | sort))
[ -z "$unexplained" ] || printf 'without a reason in %s:\n%s\n' "$known" "$unexplained"
[ $((survivors * 100)) -le $((limit_percent * tried)) ] && [ -z "$unexplained" ]
