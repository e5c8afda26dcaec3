#!/usr/bin/env bash
# Tests that .ci/vet refuses a dependency that nobody answers for. Needs no network but what cargo needs.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/lib.sh
. tests/scripts/lib.sh

# What it says of a copy of the store, in which the exemption of toml is edited.
with_toml() { # with_toml AWK_PROGRAM
    rm -rf "$work/store"
    cp -r supply-chain "$work/store"
    # Only files that cargo-vet would write so are read: a blank line first, none last.
    awk -v RS= -v ORS='\n\n' "$1" supply-chain/config.toml | sed -e '1i\\' -e '$d' >"$work/store/config.toml"
    VET_STORE=$work/store .ci/vet
}

expect "every dependency has an audit or an exemption" \
    0 "Vetting Succeeded" .ci/vet
# shellcheck disable=SC2016  # awk's
expect "one without fails" \
    1 "toml:" with_toml '!/^\[\[exemptions\.toml\]\]/'
# shellcheck disable=SC2016
expect "another version than the one that was looked at fails" \
    1 "toml:" with_toml '/^\[\[exemptions\.toml\]\]/ { sub(/version = "[^"]*"/, "version = \"0.0.1\"") } 1'
# shellcheck disable=SC2016
expect "looked at for tests alone is not enough for the program" \
    1 "toml:" with_toml '/^\[\[exemptions\.toml\]\]/ { sub(/safe-to-deploy/, "safe-to-run") } 1'
# shellcheck disable=SC2329  # `expect` calls it
desktop_without_gtk() {
    rm -rf "$work/store"
    cp -r desktop/supply-chain "$work/store"
    awk -v RS= -v ORS='\n\n' '!/^\[\[exemptions\.gtk4\]\]/' desktop/supply-chain/config.toml |
        sed -e '1i\\' -e '$d' >"$work/store/config.toml"
    VET_DESKTOP_STORE=$work/store .ci/vet
}
expect "one of the window without fails" \
    1 "gtk4:" desktop_without_gtk
expect "the way to an audit is named" \
    1 "cargo vet certify CRATE" with_toml '!/^\[\[exemptions\.toml\]\]/'
expect "another option is wrong use" \
    2 "usage: .ci/vet" .ci/vet --whatever
finish vet
