#!/usr/bin/env bash
# Tests scripts/release.sh and scripts/verify-release.sh on a copy of this tree, with a program that is built already:
# $CULVERT_BIN, or target/debug/culvert, which is built where it is missing. Needs root, for mounts of its own.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/lib.sh
. tests/scripts/lib.sh

CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR
# The copy's helpers need libraries that are built already.
export CARGO_BUILD_BUILD_DIR=$CARGO_TARGET_DIR
program=${CULVERT_BIN:-$CARGO_TARGET_DIR/debug/culvert}
[ -x "$program" ] || cargo build --quiet --locked --workspace --bin culvert || exit 1
strip -o "$work/dynamic" "$program"
# The static program takes a release build. Nothing here depends on what it does.
printf '#include <stdio.h>\nint main(void) { puts("culvert 0.1.0"); return 0; }\n' >"$work/static.c"
cc -g -static -o "$work/static" "$work/static.c"
# Nor on the window, whose build takes GTK: the package declares what it needs of that.
printf '#include <stdio.h>\nint main(void) { puts("culvert-desktop 0.1.0"); return 0; }\n' >"$work/window.c"
cc -g -o "$work/window" "$work/window.c"
# Time matters more than size.
export CULVERT_DEB_OPTIONS=-Znone DEB_BUILD_OPTIONS=nostrip

# What is in the working tree, committed or not.
tree=$work/tree
mkdir "$tree"
git ls-files -z --cached --others --exclude-standard | tar --null -T - --ignore-failed-read -cf - 2>/dev/null |
    tar -xf - -C "$tree"
commit() {
    git -C "$tree" add -A
    git -C "$tree" -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false commit --quiet --allow-empty -m "$1"
}
git -C "$tree" init --quiet --initial-branch main
version=$("$tree/packaging/version")
sed -i "0,/^## Unreleased/s//## $version - 2026-01-31/" "$tree/CHANGELOG.md"
commit tree

ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/key"
ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/strange-key"
cp "$work/strange-key.pub" "$work/no-agent.pub"
unset SSH_AUTH_SOCK
# The database of advisories is made up: tests/scripts/audit.sh tests the audit.
mkdir -p "$work/advisories/crates/no-such-crate" "$work/no-advisories"
cat >"$work/advisories/crates/no-such-crate/RUSTSEC-2026-9999.md" <<'ADVISORY'
```toml
[advisory]
id = "RUSTSEC-2026-9999"
package = "no-such-crate"
date = "2026-01-01"

[versions]
patched = [">= 999.0.0"]
```

# A made-up fault

It is none.
ADVISORY
git -C "$work/advisories" init --quiet --initial-branch main
git -C "$work/advisories" add .
git -C "$work/advisories" -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false commit --quiet -m none
export ADVISORY_DB=$work/advisories
# cargo-deny is built in the working tree.
mkdir "$tree/target"
ln -s "$CARGO_TARGET_DIR/tools" "$tree/target/tools"

release() { # release VERSION KEY
    CARGO_TARGET_DIR=$work/target "$tree/scripts/release.sh" "$1" "$2" "$work/dynamic" "$work/static" "$work/window"
}
# As one that builds its programs: it ends at the audit, if nothing refuses it before.
building=(env ADVISORY_DB="$work/no-advisories" CARGO_TARGET_DIR="$work/target" "$tree/scripts/release.sh" "$version" "$work/key")
on_debian() { # on_debian VERSION COMMAND…
    printf 'PRETTY_NAME="Debian GNU/Linux %s"\nID=debian\nVERSION_ID="%s"\n' "$1" "$1" >"$work/debian-$1"
    unshare --mount sh -c 'mount --bind "$0" /etc/os-release && exec "$@"' "$work/debian-$1" "${@:2}"
}

expect "no version is wrong use" \
    2 "give VERSION and SIGNING_KEY" release "" "$work/key"
expect "no key is wrong use" \
    2 "give VERSION and SIGNING_KEY" release "$version" ""
expect "a key that is not there is named" \
    1 "release: there is no key to sign with at $work/nothing" release "$version" "$work/nothing"
expect "a file that is no key is named" \
    1 "is no OpenSSH key" release "$version" "$work/static.c"
expect "a public key without its agent can't sign" \
    1 "cannot sign: is its agent running" release "$version" "$work/no-agent.pub"
expect "another version than that of Cargo.toml is refused" \
    1 "release: Cargo.toml has the version $version, not 9.9.9" release 9.9.9 "$work/key"
sed -i 's/^version = ".*"/version = "0.0.9"/' "$tree/desktop/Cargo.toml"
commit desktop
expect "a window of another version is refused" \
    1 "release: desktop/Cargo.toml has the version 0.0.9, not $version" release "$version" "$work/key"
git -C "$tree" reset --quiet --hard HEAD~1
expect "a version of another form is refused" \
    1 "is not of the form 1.2.3" release 1.2 "$work/key"
touch "$tree/stray"
expect "a tree that differs from its commit is refused" \
    1 "release: the tree differs from its commit" release "$version" "$work/key"
rm "$tree/stray"

without() { # without PROGRAM COMMAND…
    local bin=$work/bin-without-$1 missing=$1
    shift
    mkdir -p "$bin"
    ln -sf /usr/bin/* "$bin/"
    rm "$bin/$missing"
    PATH=$bin "$@"
}
expect "a tool that is missing is named with its package" \
    1 "release: the program dh is missing: apt-get install debhelper" without dh release "$version" "$work/key"

expect "a newer system than the packages are for is refused" \
    1 "a release is built on Debian 12, the oldest that its packages are for; this is Debian GNU/Linux 13" \
    on_debian 13 "${building[@]}"
mkdir "$work/no-gtk"
printf '#!/bin/sh\nexit 1\n' >"$work/no-gtk/pkg-config"
chmod +x "$work/no-gtk/pkg-config"
expect "a machine without GTK is told so before anything is built" \
    1 "release: GTK 4.8 or libadwaita 1.2 is missing: apt-get install pkg-config libgtk-4-dev libadwaita-1-dev" \
    on_debian 12 env PATH="$work/no-gtk:$PATH" "${building[@]}"

sed -i "0,/^## $version/s//## Unreleased/" "$tree/CHANGELOG.md"
commit unreleased
expect "changes that are still unreleased are refused" \
    1 "release: the newest section of CHANGELOG.md is Unreleased, not $version" release "$version" "$work/key"
git -C "$tree" reset --quiet --hard HEAD~1
sed -i "0,/culvert:$version/s//culvert:0.0.9/" "$tree/packaging/container/compose.yaml"
commit compose
expect "an image of another version is refused" \
    1 "compose*.yaml have the image version 0.0.9 $version, not $version" release "$version" "$work/key"
git -C "$tree" tag "v$version"
git -C "$tree" reset --quiet --hard HEAD~1
expect "a tag of this version on another commit is refused" \
    1 "release: the tag v$version is another commit" release "$version" "$work/key"
git -C "$tree" tag -d "v$version" >/dev/null
ADVISORY_DB=$work/no-advisories expect "a failed audit is a failed release" \
    1 "release: the audit of the dependencies failed" release "$version" "$work/key"
sed -i '/^\[\[exemptions\.toml\]\]/,/^$/d' "$tree/supply-chain/config.toml"
commit exemption
expect "a dependency that nobody answers for is a failed release" \
    1 "release: a dependency has no audit and no exemption" release "$version" "$work/key"
git -C "$tree" reset --quiet --hard HEAD~1
expect "none of them left a release" \
    0 "" test ! -e "$work/target/release-$version"

out=$work/target/release-$version
expect "a release is made and verified" \
    0 "verified: 12 files, signed by culvert-release" release "$version" "$work/key"
cp "$work/said" "$work/release-said"
expect "it says which packages it does not have" \
    0 "release: it has no packages for " cat "$work/release-said"
# Without one, all else fails too, and says nothing.
[ -d "$out" ] || finish release
bill=$out/culvert-$version.cdx.json
expect "its bill of materials is valid CycloneDX" \
    0 "" scripts/lint-sbom.sh "$bill"
expect "and names the libraries in C" \
    0 '"cpe:2.3:a:sqlite:sqlite:3.' grep cpe "$bill"
bill=$out/culvert-desktop-$version.cdx.json
expect "the window has a bill of materials of its own, which is valid too" \
    0 "" scripts/lint-sbom.sh "$bill"
expect "and names the crates of its own lock file" \
    0 '"purl": "pkg:cargo/gtk4@' grep gtk4@ "$bill"
window=culvert-desktop_$version-1_$(dpkg --print-architecture).deb
expect "the package of the window is released" \
    0 "$window" grep -F "$window" "$out/SHA256SUMS"
expect "it needs the client of this release, GTK and libadwaita" \
    0 "culvert-client (>= $version), libgtk-4-1 (>= 4.8), libadwaita-1-0 (>= 1.2)" dpkg-deb --field "$out/$window" Depends
expect "the note of the build names the architecture of the packages" \
    0 "packages-for: $(dpkg --print-architecture)" cat "$out/culvert-$version.buildinfo"
expect "the program has its debug information apart" \
    0 "culvert-$version-linux-$(uname -m).debug" readelf --string-dump=.gnu_debuglink \
    "$out/culvert-$version-linux-$(uname -m)"

echo "culvert-release namespaces=\"culvert-release\" $(cut -d ' ' -f 1,2 "$work/key.pub")" >"$work/signers"
echo "stranger $(cut -d ' ' -f 1,2 "$work/strange-key.pub")" >"$work/strange-signers"
verify() { scripts/verify-release.sh "$copy" "${1:-$work/signers}"; }
fresh_copy() {
    copy=$work/copy
    rm -rf "$copy"
    cp -r "$out" "$copy"
}
flip_byte() { # flip_byte FILE: one bit of the byte in its middle
    python3 -c 'import sys
file = open(sys.argv[1], "r+b"); data = bytearray(file.read()); data[len(data) // 2] ^= 1; file.seek(0); file.write(data)' "$1"
}
fresh_copy
expect "a release is verified by its public key" \
    0 "verified: 12 files, signed by culvert-release" verify
for path in "$out"/*; do
    file=$(basename "$path")
    fresh_copy
    flip_byte "$copy/$file"
    expect "a flipped bit in $file is refused" 1 "verify-release: " verify
done
fresh_copy
rm "$copy"/*.deb
expect "some files alone are verified, and how many are missing is said" \
    0 "of the release are not here" verify
rm "$copy"/culvert-*
expect "no file at all is not verified" 1 "has no file of a release" verify
fresh_copy
touch "$copy/culvert-extra"
expect "a file that was added is refused" 1 "SHA256SUMS does not name it" verify
fresh_copy
mv "$copy/culvert-$version.cdx.json" "$work/elsewhere.json" && ln -s "$work/elsewhere.json" "$copy/culvert-$version.cdx.json"
expect "a symbolic link is refused" 1 "is no regular file" verify
fresh_copy
rm "$copy/SHA256SUMS.sig"
expect "a release without a signature is refused" 1 "has no SHA256SUMS.sig" verify
fresh_copy
expect "a key that is not the project's is refused" 1 "signed by a key that is not in" verify "$work/strange-signers"
rm "$copy/SHA256SUMS.sig"
ssh-keygen -Y sign -q -f "$work/key" -n message "$copy/SHA256SUMS"
expect "a signature for another purpose is refused" 1 "verify-release: " verify

expect "what is made of given programs is the same in another directory, umask, locale and time zone" \
    0 "$window" env CARGO_TARGET_DIR="$work/target" "$tree/scripts/reproducible.sh" "$work/dynamic" "$work/static" "$work/window"
finish release
