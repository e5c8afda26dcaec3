#!/usr/bin/env bash
# Runs every test of scripts, or those named: tests/scripts/run.sh audit
set -u
cd "$(dirname "$0")" || exit 1

status=0
for test in ./*.sh; do
    name=$(basename "$test" .sh)
    case $name in
    lib | run) continue ;;
    esac
    [ $# = 0 ] || [[ " $* " = *" $name "* ]] || continue
    "$test" || status=1
done
exit $status
