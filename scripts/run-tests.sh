#!/usr/bin/env bash
# Runs all tests. The labs wait, in namespaces above all, so more of them run at a time than there are processors. The
# labs of SLOW_LABS mostly wait for timers of a protocol, such as two minutes for new keys: they run beside
# the others, two tests at a time. All other tests compute: they run beside the labs too, and give way to
# them. The output of the first labs comes first.
#
# usage: SLOW_LABS="LAB…" scripts/run-tests.sh THREADS LAB…
#   THREADS  tests of one program that run at the same time
#   LAB      test programs that are labs (tests/lab/Cargo.toml)
set -u
cd "$(dirname "$0")/.." || exit 1
threads=${1:?usage: scripts/run-tests.sh THREADS LAB…}
shift

slow=$(mktemp) others=$(mktemp) jobs=() status=0
stop() {
    # Whole groups: cargo, and the test program that it runs.
    for job in "${jobs[@]}"; do
        kill -- -"$job" 2>/dev/null
    done
    rm -f "$slow" "$others"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Comments of the code hold no tests: to look for some in each crate takes most of a minute.
# Each command names the whole workspace: with fewer packages, dependencies would be built once more with other features.
# All are jobs with groups of their own, so that a signal is not kept waiting.
set -m
nice -n 10 cargo test --workspace --lib --bins --tests --no-fail-fast -- --test-threads "$threads" >"$others" 2>&1 &
jobs+=($!)
labs() { # labs THREADS LAB…
    local threads=$1
    shift
    # shellcheck disable=SC2046 # one word for each
    cargo test --workspace --no-fail-fast $(printf -- '--test %s ' "$@") -- --test-threads "$threads"
}
# shellcheck disable=SC2086 # one word for each
[ -z "${SLOW_LABS:-}" ] || {
    labs 2 $SLOW_LABS >"$slow" 2>&1 &
    jobs+=($!)
}
labs "$threads" "$@" &
jobs+=($!)
set +m
for job in "${jobs[@]}"; do
    wait "$job" || status=1
done
jobs=()
cat "$slow" "$others"
exit $status
