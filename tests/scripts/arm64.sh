#!/usr/bin/env bash
# Tests of what builds for arm64: a script that lacks its tools says so, and packages have the architecture of their
# program. Packages for arm64 are made where the cross compiler is.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/lib.sh
. tests/scripts/lib.sh

# A machine that has Rust, without the standard library of another platform, and no cross compiler.
bare=$work/bare
mkdir "$bare"
printf '#!/bin/sh\necho /nowhere\n' >"$bare/rustc"
chmod +x "$bare/rustc"
for tool in dirname sed sh uname; do
    ln -s "$(command -v $tool)" "$bare/$tool"
done
on_bare() { env -i HOME="$bare" PATH="$bare" "$(command -v bash)" scripts/arm64.sh "$@"; }

expect "without the tools, the optional step says that it was left out" \
    0 "arm64: NOT tested: this machine lacks the standard library" on_bare test-if-there
expect "without the tools, tests that are asked for fail" \
    1 "run scripts/setup.sh arm64" on_bare test
expect "without the tools, a build names the compiler" \
    1 "aarch64-linux-gnu-gcc" on_bare build
expect "no command is wrong use" \
    2 "usage: scripts/arm64.sh build" on_bare

# What packages ask of a program.
cat >"$work/small.c" <<'C'
#include <stdio.h>
#include <string.h>
int main(int count, char **arguments) {
    char path[4096];
    if (count < 3) return 2;
    if (strcmp(arguments[1], "man-pages") != 0) return puts("# completions") < 0;
    snprintf(path, sizeof path, "%s/culvert.1", arguments[2]);
    FILE *page = fopen(path, "w");
    if (!page) return 1;
    fputs(".TH culvert 1\n.SH NAME\nculvert \\- a tunnel\n", page);
    return fclose(page);
}
C
# The packages of a program: of which architecture they are, and what the first needs.
packages() { # packages PROGRAM
    rm -rf "$work/packages"
    packaging/build "$1" "$work/packages" || return
    local package
    for package in "$work"/packages/culvert*.deb; do
        dpkg-deb --field "$package" Package Architecture Depends | paste -sd ' '
    done
}

echo "no program" >"$work/text"
expect "a file that is no program makes no package" \
    1 "is no program for amd64 or arm64" packages "$work/text"
export CULVERT_DEB_OPTIONS=-Znone
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64-static >/dev/null; then
    aarch64-linux-gnu-gcc -g -o "$work/small" "$work/small.c" || exit 1
    expect "packages of a program for arm64 are for arm64, and need Debian's own C library" \
        0 "Package: culvert Architecture: arm64 Depends: libc6 (>=" packages "$work/small"
    expect "and so are the packages of services" \
        0 "Package: culvert-client Architecture: arm64" packages "$work/small"
fi
finish arm64
