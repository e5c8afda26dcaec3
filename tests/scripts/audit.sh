#!/usr/bin/env bash
# Tests .ci/audit against advisory databases made up here. Needs no network but what cargo needs.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/lib.sh
. tests/scripts/lib.sh

# Whatever this machine has fetched does not count, and nothing can be fetched.
export ADVISORY_CACHE=$work/cache
unset ADVISORY_DB
export GIT_CONFIG_COUNT=1 GIT_CONFIG_VALUE_0=https://github.com/RustSec/advisory-db
export GIT_CONFIG_KEY_0=url.file://$work/nowhere.insteadOf

# A database of one advisory, whose newest commit is so many seconds old.
make_database() { # make_database NAME CRATE AGE_S
    local dir=$work/$1 date
    date="$(($(date +%s) - $3)) +0000"
    mkdir -p "$dir/crates/$2"
    cat >"$dir/crates/$2/RUSTSEC-2026-9999.md" <<ADVISORY
\`\`\`toml
[advisory]
id = "RUSTSEC-2026-9999"
package = "$2"
date = "2026-01-01"

[versions]
patched = [">= 999.0.0"]
\`\`\`

# A made-up fault

It is none.
ADVISORY
    git -C "$dir" init --quiet --initial-branch main
    git -C "$dir" add .
    GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date git -C "$dir" -c user.name=t -c user.email=t@localhost \
        -c commit.gpgsign=false commit --quiet -m advisory
}
day=86400
make_database fresh no-such-crate 0
make_database aged no-such-crate $((30 * day - 600))
make_database old no-such-crate $((30 * day + 600))
make_database ahead no-such-crate $((-2 * day))
make_database found anyhow 0
make_database found-desktop gtk4 0
make_database old-found anyhow $((31 * day))
mkdir "$work/empty"

# shellcheck disable=SC2329  # `expect` calls it
with() { # with DATABASE COMMAND…
    ADVISORY_DB=$work/$1 "${@:2}"
}

expect "a current database is enough" \
    0 "advisories: checked against the database of" with fresh .ci/audit
expect "a database of thirty days is current" \
    0 "advisories: checked against the database of" with aged .ci/audit
expect "an older one fails" \
    1 "older than 30 days" with old .ci/audit
expect "one from the future fails" \
    1 "is this machine's clock right?" with ahead .ci/audit
expect "an advisory against a dependency fails" \
    1 "RUSTSEC-2026-9999" with found .ci/audit
expect "an advisory against a dependency fails where the database is optional" \
    1 "RUSTSEC-2026-9999" with found .ci/audit --advisories-optional
expect "an advisory against a dependency of the window fails" \
    1 "gtk4" with found-desktop .ci/audit
expect "an old database is asked, too" \
    1 "RUSTSEC-2026-9999" with old-found .ci/audit --advisories-optional
expect "a database that is not there fails" \
    1 "nowhere is no directory" with nowhere .ci/audit
expect "a directory that is no database fails" \
    1 "cannot be fetched from $work/empty" with empty .ci/audit
expect "no database at all fails" \
    1 "audit: advisories are not checked: there is no advisory database" .ci/audit
expect "and the way to one is named" \
    1 "ADVISORY_DB=PATH-OF-THE-CLONE" .ci/audit
expect "where it is optional, the output says that it is missing" \
    0 "advisories: NOT CHECKED by this run: there is no advisory database" .ci/audit --advisories-optional
expect "where it is optional, the output says that it is old" \
    0 "advisories: NOT CURRENT in this run: the advisory database is of" with old .ci/audit --advisories-optional
expect "another option is wrong use" \
    2 "usage: .ci/audit" .ci/audit --whatever
finish audit
