# Debian packages of programs that are built already. Sourced in the root of the repository.
# shellcheck shell=bash

# Sets `architecture` and `triple` to those of a program, and `run` to the words that run it: a program of another
# processor than this machine's is run in qemu.
know_program() { # know_program PROGRAM
    case $(readelf --file-header "$1" 2>/dev/null | sed -n 's/^ *Machine: *//p') in
    *X86-64) architecture=amd64 triple=x86_64-linux-gnu ;;
    AArch64) architecture=arm64 triple=aarch64-linux-gnu ;;
    *)
        echo "build: $1 is no program for amd64 or arm64" >&2
        exit 1
        ;;
    esac
    run=()
    [ "$architecture" != "$(dpkg --print-architecture)" ] || return 0
    run=("qemu-${triple%%-*}-static" -L "/usr/$triple")
    local tool
    for tool in "${run[0]}" "$triple-objcopy"; do
        command -v "$tool" >/dev/null || {
            echo "build: packages for $architecture need $tool here: run scripts/setup.sh $architecture" >&2
            exit 1
        }
    done
}

# Makes the packages that the directory `debian` of a source says, copies them, and prints where they are.
make_packages() { # make_packages NAME VERSION SOURCE OUT
    local source=$3 out=$4 package
    command -v dh >/dev/null || {
        echo "build: the program dh is missing: apt-get install debhelper" >&2
        exit 1
    }
    # Two runs over the same commit give the same packages.
    export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
    cat >"$source/debian/changelog" <<CHANGELOG
$1 ($2-1) unstable; urgency=medium

  * See CHANGELOG.md of the source.

 -- The Culvert authors <culvert@localhost>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG
    # Of what is beside the source, packages are what this makes.
    if ! (cd "$source" && dpkg-buildpackage --host-arch "${architecture:?}" --build=binary --unsigned-changes --unsigned-buildinfo) \
        >"${source%/*}/log" 2>&1; then
        tail -n 30 "${source%/*}/log" >&2
        echo "build: dpkg-buildpackage failed, see above" >&2
        exit 1
    fi
    for package in "${source%/*}"/*.deb; do
        cp "$package" "$out/"
        echo "$out/${package##*/}"
    done
}
