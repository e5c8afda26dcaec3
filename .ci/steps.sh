# The steps of CI, for the two scripts that have some. Sourced in the root of the repository.
# shellcheck shell=bash
#
# CI_WORK is a directory of this run: `failed` in it has the name of each step that failed, a line each.

step() { # step NAME COMMAND…
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    if "$@" </dev/null; then
        echo "== $name: ok, $((SECONDS - start)) s"
    else
        echo "$name" >>"$CI_WORK/failed"
        echo "== $name: FAILED, $((SECONDS - start)) s"
    fi
}
