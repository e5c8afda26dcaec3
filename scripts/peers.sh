#!/usr/bin/env bash
# Builds the WireGuard implementations that tests speak to and that the benchmark measures against,
# at pinned versions, into target/peers/bin; beside each lies a note of its version. The resolvers that
# tests speak to come from Debian and are unpacked there, not installed: that would have them take over
# this machine's own names. Reverse proxies come from there likewise: installed, they would listen. The
# translator of NAT64 and the relay that Culvert's is measured against come from there too. The
# identity provider that people sign in by in tests comes from npm, by the lock file in tests/openid. The programs that
# ask by the resolvers of C libraries and of Go are built from tests/resolvers.
# What is there already at that version is left alone.
#
#   scripts/peers.sh                       all of them
#   scripts/peers.sh wireguard-go boringtun
#
# Exit status: 0 everything asked for is there; 2 wrong use; 3 a tool chain is missing or too old;
# 4 a registry could not be reached or a build failed. The rest is still tried.
set -u
cd "$(dirname "$0")/.." || exit 2

peers_dir=$PWD/target/peers
bin_dir=$peers_dir/bin

# One line a peer: name, registry, package, version, name of the program that the package builds.
peers() {
    cat <<'TABLE'
wireguard-go   go    golang.zx2c4.com/wireguard       v0.0.0-20260522210424-ecfc5a8d5446  wireguard
tailscale      go    github.com/tailscale/wireguard-go v0.0.0-20260928213032-417aef361226 wireguard-go
boringtun      cargo boringtun-cli                    0.7.1                               boringtun-cli
gotatun        cargo gotatun-cli                      0.10.2                              gotatun
resolved       debian systemd-resolved                any                                 lib/systemd/systemd-resolved
openresolv     debian openresolv                      any                                 sbin/resolvconf
nginx          debian_libs nginx                     any                                 usr/sbin/nginx
haproxy        debian_libs haproxy                   any                                 usr/sbin/haproxy
turnserver     debian_libs coturn                    any                                 usr/bin/turnserver
tayga          debian_libs tayga                     any                                 usr/sbin/tayga
caddy          debian_libs caddy                     any                                 usr/bin/caddy
oidc-provider  npm    tests/openid                    9.13.3                              provider.js
getent-musl    musl   tests/resolvers                 1                                   getent.c
ask-musl       musl   tests/resolvers                 1                                   ask.c
ask-glibc      glibc  tests/resolvers                 1                                   ask.c
ask-go         go_file tests/resolvers                1                                   ask.go
TABLE
}

# The name a peer has in target/peers/bin; both Go programs would be called wireguard-go otherwise.
program_of() {
    case $1 in
        wireguard-go) echo wireguard-go ;;
        tailscale) echo wireguard-go-tailscale ;;
        boringtun) echo boringtun-cli ;;
        gotatun) echo gotatun-cli ;;
        resolved) echo systemd-resolved ;;
        openresolv) echo resolvconf ;;
        *) echo "$1" ;;
    esac
}

status=0
complain() { # complain STATUS TEXT…: say it, and remember the first status
    local code=$1
    shift
    echo "peers.sh: $*" >&2
    [ "$status" -ne 0 ] || status=$code
}

# Runs a build quietly, at the lowest priority unless PEERS_NICE says otherwise; its output is shown only when it fails.
quietly() {
    local log=$peers_dir/log/$1.txt
    shift
    nice -n "${PEERS_NICE:-19}" "$@" >"$log" 2>&1 && return 0
    tail -n 15 "$log" >&2
    return 1
}

build_go() { # build_go NAME PACKAGE VERSION BUILT_AS
    local go_dir=$peers_dir/go-$1
    if ! command -v go >/dev/null 2>&1; then
        complain 3 "$1 needs Go 1.24 or newer, and there is none. Debian's golang package is too old: take it from https://go.dev/dl/."
        return 1
    fi
    mkdir -p "$go_dir"
    if ! GOBIN=$go_dir GOFLAGS=-trimpath quietly "$1" go install "$2@$3"; then
        complain 4 "$1: 'go install $2@$3' failed: is the Go module proxy reachable, and Go new enough ($(go env GOVERSION))?"
        return 1
    fi
    mv "$go_dir/$4" "$bin_dir/$(program_of "$1")"
    rmdir "$go_dir"
}

build_cargo() { # build_cargo NAME PACKAGE VERSION BUILT_AS
    local root_dir=$peers_dir/cargo-$1
    if ! command -v cargo >/dev/null 2>&1; then
        complain 3 "$1 needs cargo: install Rust from https://rustup.rs/."
        return 1
    fi
    # A target directory of its own: the build must not invalidate the workspace's.
    if ! CARGO_TARGET_DIR=$peers_dir/build-$1 quietly "$1" \
        cargo install "$2" --version "$3" --locked --root "$root_dir" --no-track; then
        complain 4 "$1: 'cargo install $2 --version $3' failed: is the crate registry reachable?"
        return 1
    fi
    mv "$root_dir/bin/$4" "$bin_dir/$(program_of "$1")"
    rm -rf "$root_dir" "$peers_dir/build-$1"
}

build_debian() { # build_debian NAME PACKAGE VERSION PATH_IN_PACKAGE
    local root_dir=$peers_dir/debian-$1
    rm -rf "$root_dir"
    mkdir -p "$root_dir"
    # The package lists of a fresh machine are empty or old.
    if ! (cd "$root_dir" && { quietly "$1" apt-get download "$2" ||
        { quietly "$1" apt-get update && quietly "$1" apt-get download "$2"; }; }) ||
        ! dpkg -x "$root_dir/$2"_*.deb "$root_dir"; then
        complain 4 "$1: 'apt-get download $2' failed: is this Debian or Ubuntu, and its archive reachable?"
        return 1
    fi
    # Some releases have /usr in front of everything.
    [ -e "$root_dir/$4" ] || ln -s usr/lib "$root_dir/lib" 2>/dev/null
    [ -e "$root_dir/$4" ] || ln -s usr/sbin "$root_dir/sbin" 2>/dev/null
    ln -sf "$root_dir/$4" "$bin_dir/$(program_of "$1")"
}

# As build_debian, with the libraries that installing the package would install.
build_debian_libs() { # build_debian_libs NAME PACKAGE VERSION PATH_IN_PACKAGE
    local root_dir=$peers_dir/debian-$1 program=$bin_dir/$1 file dirs
    rm -rf "$root_dir" "$program"
    mkdir -p "$root_dir"
    # shellcheck disable=SC2046  # a list of packages is meant to be split
    if ! (cd "$root_dir" && { quietly "$1" apt-get download "$2" $(missing_libraries "$2") ||
        { quietly "$1" apt-get update && quietly "$1" apt-get download "$2" $(missing_libraries "$2"); }; }); then
        complain 4 "$1: 'apt-get download $2' failed: is this Debian or Ubuntu, and its archive reachable?"
        return 1
    fi
    for file in "$root_dir"/*.deb; do
        if ! dpkg -x "$file" "$root_dir"; then
            complain 4 "$1: ${file##*/} can't be unpacked."
            return 1
        fi
        rm "$file"
    done
    dirs=$(find "$root_dir" -name 'lib*.so.*' -printf '%h\n' | sort -u | paste -sd :)
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$dirs" "$root_dir/$4" >"$program"
    chmod +x "$program"
}

missing_libraries() { # missing_libraries PACKAGE: those that installing it would install
    LC_ALL=C apt-get install --simulate --no-install-recommends "$1" 2>/dev/null |
        awk '$1 == "Inst" && $2 ~ /^lib/ { print $2 }'
}

build_npm() { # build_npm NAME DIRECTORY VERSION PROGRAM
    local root_dir=$peers_dir/npm-$1
    if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
        complain 3 "$1 needs Node.js 20 or newer and npm: install Debian's nodejs and npm."
        return 1
    fi
    rm -rf "$root_dir"
    mkdir -p "$root_dir"
    cp "$2"/* "$root_dir"
    # By the lock file alone, which has a hash of every package; none of them runs anything here.
    if ! (cd "$root_dir" && quietly "$1" npm ci --ignore-scripts --no-audit --no-fund); then
        complain 4 "$1: 'npm ci' in $2 failed: is the npm registry reachable?"
        return 1
    fi
    printf '#!/bin/sh\nexec node "%s" "$@"\n' "$root_dir/$4" >"$bin_dir/$(program_of "$1")"
    chmod +x "$bin_dir/$(program_of "$1")"
}

build_musl() { # build_musl NAME DIRECTORY VERSION SOURCE
    if ! command -v musl-gcc >/dev/null 2>&1; then
        complain 3 "$1 needs musl-gcc: install Debian's musl-tools."
        return 1
    fi
    build_c musl-gcc "$@"
}

build_glibc() { # build_glibc NAME DIRECTORY VERSION SOURCE
    build_c cc "$@" -lresolv
}

build_c() { # build_c COMPILER NAME DIRECTORY VERSION SOURCE [LIBRARY]
    local linking=
    [ "$1" = cc ] || linking=-static
    # shellcheck disable=SC2086  # one option, or none
    if ! quietly "$2" "$1" $linking -O2 -Wall -o "$bin_dir/$(program_of "$2")" "$3/$5" "${@:6}"; then
        complain 4 "$2: $1 can't build $3/$5."
        return 1
    fi
}

build_go_file() { # build_go_file NAME DIRECTORY VERSION SOURCE
    if ! command -v go >/dev/null 2>&1; then
        complain 3 "$1 needs Go 1.24 or newer, and there is none. Debian's golang package is too old: take it from https://go.dev/dl/."
        return 1
    fi
    # Without the C library, whose resolver would be asked instead.
    if ! CGO_ENABLED=0 GOFLAGS=-trimpath quietly "$1" go build -o "$bin_dir/$(program_of "$1")" "$2/$4"; then
        complain 4 "$1: Go can't build $2/$4."
        return 1
    fi
}

mkdir -p "$bin_dir" "$peers_dir/log"
# Two runs at once would build the same thing twice and fight over the result.
exec 9>"$peers_dir/lock"
flock 9

wanted=$*
[ -n "$wanted" ] || wanted=$(peers | awk '{ print $1 }')
for name in $wanted; do
    line=$(peers | awk -v name="$name" '$1 == name')
    if [ -z "$line" ]; then
        complain 2 "there is no peer '$name'; known are: $(peers | awk '{ printf "%s ", $1 }')"
        continue
    fi
    read -r _ registry package version built_as <<<"$line"
    # What lies in this repository is part of what is built.
    case $registry in npm | musl | glibc | go_file) version+=-$(cat "$package"/* | sha256sum | cut -c 1-12) ;; esac
    program=$bin_dir/$(program_of "$name")
    if [ -x "$program" ] && [ "$(cat "$program.version" 2>/dev/null)" = "$package $version" ]; then
        continue
    fi
    echo "building $name ($package $version) …"
    "build_$registry" "$name" "$package" "$version" "$built_as" 9>&- &&
        echo "$package $version" >"$program.version"
done
exit "$status"
