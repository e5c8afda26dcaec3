#!/usr/bin/env bash
# Runs all tests. The labs wait, in namespaces above all, so more of them run at a time than there are processors. All
# other tests compute: they run beside the labs, and give way to them. Their output follows that of the labs.
#
# usage: scripts/run-tests.sh THREADS LAB…
#   THREADS  tests of one program that run at the same time
#   LAB      test programs that are labs (tests/lab/Cargo.toml)
#
# Of the environment: AFTER_OTHERS, a command that computes as well. It runs when the other tests have ended, in their
# place beside the labs; its output follows theirs. Its exit status does not count.
set -u
cd "$(dirname "$0")/.." || exit 1
threads=${1:?usage: scripts/run-tests.sh THREADS LAB…}
shift

# Dozens of portals write to disk at once, and wait for it. A disk that stalls for seconds would fail their tests, and
# no test is about the disk. So their files are in memory where there is room for them: 4 GiB, with a margin.
memory=/dev/shm
scratch=${TMPDIR:-/tmp}
if [ -z "${TMPDIR:-}" ] &&
    findmnt --noheadings --types tmpfs --output OPTIONS "$memory" | grep -qv noexec &&
    [ "$(df --output=avail "$memory" | tail -n 1)" -gt $((4 * 1024 * 1024)) ]; then
    export TMPDIR=$memory
fi

others=$(mktemp) jobs=() status=0
stop() {
    # Whole groups: cargo, and the test program that it runs.
    for job in "${jobs[@]}"; do
        kill -- -"$job" 2>/dev/null
    done
    rm -f "$others"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Comments of the code hold no tests: to look for some in each crate takes most of a minute.
# Each command names the whole workspace: with fewer packages, dependencies would be built once more with other features.
# Both are jobs with groups of their own, so that a signal is not kept waiting.
set -m
{
    nice -n 10 cargo test --workspace --lib --bins --tests --no-fail-fast -- --test-threads "$threads"
    passed=$?
    [ -z "${AFTER_OTHERS:-}" ] || TMPDIR=$scratch nice -n 10 "$AFTER_OTHERS"
    exit "$passed"
} >"$others" 2>&1 &
jobs+=($!)
# shellcheck disable=SC2046 # one word for each
cargo test --workspace --no-fail-fast $(printf -- '--test %s ' "$@") -- --test-threads "$threads" &
jobs+=($!)
set +m
wait "${jobs[1]}" || status=1
wait "${jobs[0]}" || status=1
jobs=()
cat "$others"
exit $status
