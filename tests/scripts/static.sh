#!/usr/bin/env bash
# Tests that a static program loads no library for names, users and groups, whatever nsswitch.conf says. The program is a small one
# around the file of the real one that sees to it, built in a second; it runs with an nsswitch.conf whose services are a
# library that ends it. Needs root, for a mount of its own.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/lib.sh
. tests/scripts/lib.sh

# The services are found by LD_LIBRARY_PATH. Their library ends whatever loads it, before the first question.
echo '__attribute__((constructor)) static void end(void) { _exit(99); }' | sed '1i #include <unistd.h>' >"$work/trap.c"
cc -shared -fPIC -o "$work/libnss_trap.so.2" "$work/trap.c" || exit 1
printf '%s: files trap\n' passwd group initgroups services >"$work/nsswitch.conf"
echo 'hosts: files trap dns' >>"$work/nsswitch.conf"
: >"$work/resolv.conf"

small() { # small NAME FIRST_STATEMENT
    cat >"$work/$1.rs" <<RUST
#[path = "$PWD/crates/host/src/name_services.rs"]
mod name_services;
unsafe extern "C" {
    fn getgrnam(name: *const std::ffi::c_char) -> *const u8;
    fn getpwnam(name: *const std::ffi::c_char) -> *const u8;
}
fn main() {
    let _ = name_services::keep_to_built_in_name_services as fn();
    $2
    let nobody = c"nobody-of-this-name".as_ptr();
    let found = match std::env::args().nth(1).as_deref() {
        Some("group") => !unsafe { getgrnam(nobody) }.is_null(),
        Some("user") => !unsafe { getpwnam(nobody) }.is_null(),
        Some("root") => !unsafe { getpwnam(c"root".as_ptr()) }.is_null(),
        _ => std::net::ToSocketAddrs::to_socket_addrs("nobody.of.this.name.invalid:1").is_ok(),
    };
    println!("found: {found}");
}
RUST
    # Like the program, which is linked so (packaging/build-env.sh).
    rustc --edition 2024 -C target-feature=+crt-static -O -o "$work/$1" "$work/$1.rs" 2>"$work/log" || {
        cat "$work/log" >&2
        exit 1
    }
}

# In mounts of its own, with the services and without a resolver.
ask() { # ask PROGRAM WHAT
    unshare --mount sh -c '
        mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf && mount --bind "$1/resolv.conf" /etc/resolv.conf &&
        LD_LIBRARY_PATH=$1 exec "$1/$2" "$3"' sh "$work" "$1" "$2"
}

small careless ""
small careful "name_services::keep_to_built_in_name_services();"
for what in group user host; do
    expect "a static program loads the service of a $what if nothing keeps it from that" \
        99 "" ask careless $what
    expect "the service of a $what is not loaded" \
        0 "found: false" ask careful $what
done
expect "users in the file are found" \
    0 "found: true" ask careful root
finish static
