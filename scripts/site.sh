#!/usr/bin/env bash
# Makes the documentation site of docs/ and of what the program says of itself, into target/site. The generator
# (docs/site/requirements.txt, pinned by checksum) is installed below target/, once.
#
#   scripts/site.sh          makes it; a link that leads nowhere is a failure
#   scripts/site.sh serve    shows it at http://127.0.0.1:8000, and follows what changes
#
# CULVERT_BIN names the program whose commands are told of; without it, it is built.
#
# Exit status: 0 done; 1 the generator can't be had, a link leads nowhere, or a page loads something from elsewhere.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
tools=$target/tools/site
staged=$target/site-source
built=$target/site
locked=docs/site/requirements.txt

stamp=$tools/$(sha256sum "$locked" | cut -c 1-16)
if [ ! -e "$stamp" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$locked" || {
        echo "site.sh: the generator can't be installed: is python3-venv there, and PyPI reachable?" >&2
        exit 1
    }
    touch "$stamp"
fi

program=${CULVERT_BIN:-}
if [ -z "$program" ]; then
    cargo build --quiet -p culvert
    program=$target/debug/culvert
fi
stage() { cargo xtask site "$program" "$staged"; }
stage
zensical=$(realpath "$tools/bin/zensical")
export NO_COLOR=1

if [ "${1:-}" = serve ]; then
    (
        # The generator follows its own source, and this makes that follow the documents.
        while sleep 1; do
            changed=$(find ./*.md docs -name '*.md' -newer "$staged/seen" -print -quit 2>/dev/null || true)
            [ -n "$changed" ] || [ ! -e "$staged/seen" ] || continue
            touch "$staged/seen"
            stage || true
        done
    ) &
    trap 'kill $! 2>/dev/null' EXIT
    touch "$staged/seen"
    cd "$staged" && "$zensical" serve -a 127.0.0.1:8000
    exit
fi

# Whatever an earlier run left is not asked.
rm -rf "$staged/site" "$staged/.cache" "$built"
log=$staged/build.log
if ! (cd "$staged" && "$zensical" build --strict) >"$log" 2>&1; then
    cat "$log" >&2
    echo "site.sh: the site is not whole, see above" >&2
    exit 1
fi
if grep -rEl --include='*.html' '(src=|<link [^>]*href=)"?(https?:)?//' "$staged/site"; then
    echo "site.sh: these pages load something from elsewhere" >&2
    exit 1
fi
mv "$staged/site" "$built"
echo "$(find "$built" -name '*.html' | wc -l) pages in $built"
