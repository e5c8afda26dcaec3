#!/usr/bin/env bash
# Searches the model of the handshake for attacks with Verifpal, and compares the results with those that it
# expects ("Expected: …"; c: confidentiality, a: authentication, 0: no attack found, 1: attack).
#
# Exit status: 0 as expected; 1 not; 2 Verifpal is missing.
set -u
cd "$(dirname "$0")" || exit 2

verifpal=${VERIFPAL:-verifpal}
version=1.6.7

if ! command -v "$verifpal" >/dev/null; then
    echo "tests/handshake/check.sh: this needs Verifpal (GPL-3.0, only run, in no part of Culvert):" >&2
    echo "    cargo install --locked verifpal --version $version" >&2
    echo "(it asks for Rust 1.98; with 1.97, --ignore-rust-version builds it)" >&2
    exit 2
fi

status=0
for model in *.vp; do
    expected=$(sed -n 's,^// Expected: \([a-z0-9]*\)\..*,\1,p' "$model")
    found=$("$verifpal" verify "$model" --result-code | tail -n 1)
    if [ -n "$expected" ] && [ "$found" = "$expected" ]; then
        echo "$model: $found, as expected"
    else
        echo "$model: $found, expected ${expected:-nothing}" >&2
        status=1
    fi
done
exit "$status"
