# What the tests of scripts share. A test sources it, calls `expect` for each case and ends with `finish`.
# shellcheck shell=bash

passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Runs a command, and compares its exit status and what it says on both channels. An empty TEXT is said by all.
expect() { # expect SENTENCE STATUS TEXT COMMAND…
    local sentence=$1 status=$2 text=$3 got
    shift 3
    "$@" >"$work/said" 2>&1 </dev/null
    got=$?
    if [ "$got" = "$status" ] && { [ -z "$text" ] || grep -qF -- "$text" "$work/said"; }; then
        passed=$((passed + 1))
        return 0
    fi
    failed=$((failed + 1))
    echo "FAILED: $sentence"
    echo "  wanted exit status $status and: $text"
    echo "  got exit status $got and:"
    sed 's/^/    /' "$work/said"
}

# The line is in the form that cargo's tests have, so that .ci/run counts it.
finish() { # finish NAME
    local result=ok
    [ "$failed" = 0 ] || result=FAILED
    echo "test result: $result. $passed passed; $failed failed ($1)"
    [ "$failed" = 0 ]
    exit
}
