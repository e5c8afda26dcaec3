#!/usr/bin/env bash
# Runs every test of scripts, or those named: tests/scripts/run.sh audit
# They share nothing but tools that are built once. The test of releases takes as long as all others together and uses
# one processor most of the time, so it runs beside them. Its output follows theirs.
set -u
cd "$(dirname "$0")" || exit 1

longest=release
is_wanted() { # is_wanted NAME WANTED…: by no name at all, each is
    local name=$1
    shift
    [ $# = 0 ] || [[ " $* " = *" $name "* ]]
}

status=0 beside=''
said=$(mktemp)
stop() {
    # The whole group: the test, and what it runs.
    [ -z "$beside" ] || kill -- -"$beside" 2>/dev/null
    rm -f "$said"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if is_wanted "$longest" "$@"; then
    set -m
    "./$longest.sh" >"$said" 2>&1 &
    beside=$!
    set +m
fi
for test in ./*.sh; do
    name=$(basename "$test" .sh)
    case $name in
    lib | run | "$longest") continue ;;
    esac
    ! is_wanted "$name" "$@" || "$test" || status=1
done
if [ -n "$beside" ]; then
    wait "$beside" || status=1
    beside=''
    cat "$said"
fi
exit $status
