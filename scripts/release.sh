#!/usr/bin/env bash
# Makes a release: everything of packaging/artifacts, SHA256SUMS and its signature, in target/release-VERSION.
# docs/releasing.md has the whole procedure.
#
# usage: scripts/release.sh VERSION SIGNING_KEY [DYNAMIC STATIC WINDOW]
#   VERSION                  that of both Cargo.toml, CHANGELOG.md and the Compose files
#   SIGNING_KEY              an OpenSSH private key, or the public key of one that an agent or a token holds
#   DYNAMIC, STATIC, WINDOW  programs that are built already, for tests; the release says so
#
# Exit status: 0 it is made and verified; 1 something is missing or wrong, as one line says; 2 wrong use.
set -eu
call=$PWD
cd "$(dirname "$0")/.."
export PATH=$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin
# Signatures are for one purpose each: one that was made for a message is none for a release.
namespace=culvert-release
# The heading of the newest section: "Unreleased" until somebody gives it the version.
changes=$(sed -n 's/^## \[\{0,1\}\([^] ]*\).*/\1/p' CHANGELOG.md | head -n 1)
image=$(sed -n 's/^ *image: culvert:\(.*\)/\1/p' packaging/container/compose*.yaml | sort -u | paste -sd ' ')

die() {
    echo "release: $*" >&2
    exit 1
}

wrong_use() {
    echo "release: give VERSION and SIGNING_KEY: make release VERSION=0.1.0 SIGNING_KEY=~/.ssh/culvert-release" >&2
    exit 2
}

check_tools() {
    local tool package
    while read -r tool package; do
        command -v "$tool" >/dev/null || die "the program $tool is missing: apt-get install $package"
    done <<'TOOLS'
git git
cc build-essential
cmake cmake
dpkg-buildpackage dpkg-dev
dh debhelper
objcopy binutils
readelf binutils
gzip gzip
ssh-keygen openssh-client
sha256sum coreutils
TOOLS
    command -v cargo >/dev/null || die "Rust is missing: install it from https://rustup.rs/"
    [ -z "$builds" ] || pkg-config --exists 'gtk4 >= 4.8' 'libadwaita-1 >= 1.2' 2>/dev/null ||
        die "GTK 4.8 or libadwaita 1.2 is missing: apt-get install pkg-config libgtk-4-dev libadwaita-1-dev"
}

# Given programs are for tests, which run on any system: there it is a warning.
check_system() { packaging/check-system || [ -z "$builds" ] || exit 1; }

check_tree() {
    [ -z "$(git status --porcelain)" ] || die "the tree differs from its commit: commit or remove what git status shows"
}

check_version() {
    local wanted
    [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "the version $version is not of the form 1.2.3"
    wanted=$(packaging/version)
    [ "$wanted" = "$version" ] || die "Cargo.toml has the version $wanted, not $version"
    wanted=$(packaging/version desktop/Cargo.toml)
    [ "$wanted" = "$version" ] || die "desktop/Cargo.toml has the version $wanted, not $version"
    [ "$changes" = "$version" ] || die "the newest section of CHANGELOG.md is ${changes:-none}, not $version"
    [ "$image" = "$version" ] || die "packaging/container/compose*.yaml have the image version $image, not $version"
    local tagged
    tagged=$(git rev-parse --quiet --verify "refs/tags/v$version^{commit}" || true)
    [ -z "$tagged" ] || [ "$tagged" = "$(git rev-parse HEAD)" ] || die "the tag v$version is another commit: $tagged"
}

# Before the build, which takes long: a key that is locked or elsewhere fails now.
check_key() {
    [ -r "$key" ] || die "there is no key to sign with at $key"
    ssh-keygen -l -f "$key" >/dev/null 2>&1 || die "$key is no OpenSSH key"
    echo probe | ssh-keygen -Y sign -q -f "$key" -n "$namespace" >/dev/null 2>&1 || die "$key cannot sign: is its agent running, its passphrase right?"
    [ ! -e packaging/allowed_signers ] || {
        local public
        public=$(public_key | cut -d ' ' -f 2)
        grep -qF -- "$public" packaging/allowed_signers || die "the key of $key is not in packaging/allowed_signers"
    }
}

public_key() { ssh-keygen -y -f "$key" 2>/dev/null || cat "$key"; }

[ $# = 2 ] || [ $# = 5 ] || wrong_use
[ -n "$1" ] && [ -n "$2" ] || wrong_use
version=$1 key=$(cd "$call" && realpath -m "$2")
# Empty if the programs are given.
builds=$([ $# = 5 ] || echo yes)
check_system
check_tools
check_tree
check_version
check_key
.ci/audit || die "the audit of the dependencies failed, see above"
.ci/vet || die "a dependency has no audit and no exemption, see above"

out=${CARGO_TARGET_DIR:-target}/release-$version
unfinished=$out.unfinished
rm -rf "$out" "$unfinished"
packaging/artifacts "$unfinished" "${@:3}"
packages=$(for package in "$unfinished"/*.deb; do dpkg-deb -f "$package" Version; done | sort -u)
[ "$packages" = "$version-1" ] || die "the Debian packages have the version $packages, not $version-1"
check_tree

(cd "$unfinished" && LC_ALL=C sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
ssh-keygen -Y sign -q -f "$key" -n "$namespace" "$unfinished/SHA256SUMS" || die "SHA256SUMS cannot be signed"
signers=$(mktemp)
trap 'rm -f "$signers"' EXIT
echo "$namespace namespaces=\"$namespace\" $(public_key | cut -d ' ' -f 1,2)" >"$signers"
scripts/verify-release.sh "$unfinished" "$signers"
mv "$unfinished" "$out"
for architecture in amd64 arm64; do
    compgen -G "$out/culvert_*_$architecture.deb" >/dev/null || echo "release: it has no packages for $architecture"
done
echo "release: $out. Its key, as packaging/allowed_signers has it:"
cat "$signers"
