#!/usr/bin/env bash
# Verifies a release that was downloaded: that SHA256SUMS is signed by a key of the project, and that each file is the one
# that is named there. Needs OpenSSH 8.2 and coreutils, nothing else of this repository.
#
# usage: verify-release.sh DIR SIGNERS
#   DIR      has the files of the release, all of them or some, SHA256SUMS and SHA256SUMS.sig
#   SIGNERS  the project's public keys, from elsewhere than DIR: packaging/allowed_signers
#
# Exit status: 0 all is well; 1 something is not, as one line says; 2 wrong use.
set -eu

[ $# = 2 ] || {
    sed -n '5,7s/^# //p' "$0" >&2
    exit 2
}
dir=$1 signers=$2
namespace=culvert-release

die() {
    echo "verify-release: $*" >&2
    exit 1
}

[ -r "$signers" ] || die "there are no public keys at $signers"
for file in SHA256SUMS SHA256SUMS.sig; do
    [ -r "$dir/$file" ] || die "$dir has no $file"
done
signer=$(ssh-keygen -Y find-principals -f "$signers" -s "$dir/SHA256SUMS.sig" 2>/dev/null | head -n 1) || true
[ -n "$signer" ] || die "SHA256SUMS is signed by a key that is not in $signers: do not use these files"
ssh-keygen -Y verify -f "$signers" -I "$signer" -n "$namespace" -s "$dir/SHA256SUMS.sig" \
    <"$dir/SHA256SUMS" >/dev/null 2>&1 || die "the signature is not one of SHA256SUMS: do not use these files"

cd "$dir"
checked=0
for file in * .[!.]*; do
    case $file in
    SHA256SUMS | SHA256SUMS.sig | '*' | '.[!.]*') continue ;;
    esac
    # The name as a whole: of two lines with one name both would have to be right.
    line=$(awk -v name="$file" 'substr($0, 67) == name' SHA256SUMS)
    [ -n "$line" ] || die "$file is not of this release: SHA256SUMS does not name it"
    [ -f "$file" ] && [ ! -L "$file" ] || die "$file is no regular file"
    echo "$line" | sha256sum --check --strict --status 2>/dev/null ||
        die "$file is not the file that was released: do not use it"
    checked=$((checked + 1))
done
[ "$checked" -gt 0 ] || die "$dir has no file of a release"
missing=$(($(wc -l <SHA256SUMS) - checked))
echo "verified: $checked files, signed by $signer$([ "$missing" = 0 ] || echo "; $missing of the release are not here")"
