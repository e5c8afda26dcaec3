#!/usr/bin/env bash
# Runs a command at a fresh Debian machine: nothing is there but the least of Debian, git, make, the Rust of this machine, and a
# clone of what is committed here. So it shows what scripts/setup.sh forgets. The machine is a root directory below
# target/, with mounts that end with the command. It is removed afterwards.
#
# usage: scripts/fresh-machine.sh COMMAND [ARGUMENT…]      (root; needs mmdebstrap)
#   such as: scripts/fresh-machine.sh make test-desktop
#
# Exit status: that of the command; 1 if there is no such machine to be had.
set -eu
if [ $# = 0 ]; then
    sed -n '2,/^set/{/^set/d; s/^# \{0,1\}//; p}' "$0" >&2
    exit 1
fi
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin:/sbin
[ -z "$(git status --porcelain)" ] || echo "fresh-machine: what is not committed is not there" >&2
cargo_home=$(realpath "${CARGO_HOME:-$HOME/.cargo}") rustup_home=$(realpath "${RUSTUP_HOME:-$HOME/.rustup}")
target=${CARGO_TARGET_DIR:-target}

mkdir -p "$target"
work=$(realpath "$(mktemp -d "$target/fresh-machine.XXXXXX")")
# No mount is seen from here: they are in a namespace of the command's.
trap 'rm -rf --one-file-system "$work"' EXIT
if ! mmdebstrap --variant=minbase --mode=root --format=directory --include=ca-certificates,git,make \
    --dpkgopt=force-unsafe-io bookworm "$work/root" >"$work/log" 2>&1; then
    tail -n 15 "$work/log" >&2
    echo "fresh-machine: mmdebstrap failed, see above: are Debian's packages reachable?" >&2
    exit 1
fi
git clone --quiet --no-hardlinks . "$work/root/culvert"
cp /etc/resolv.conf /etc/hosts "$work/root/etc/"
# The crates that are here already: what is to be shown is what Debian lacks, not what a registry has.
mkdir -p "$work/root/root/.cargo" "$work/root/root/.rustup"
# shellcheck disable=SC2016  # the inner shell is to expand it
unshare --mount --propagation private bash -euc '
    root=$1 cargo_home=$2 rustup_home=$3
    shift 3
    for directory in proc sys dev; do
        mount --rbind "/$directory" "$root/$directory"
    done
    mount --bind "$cargo_home" "$root/root/.cargo"
    mount --bind "$rustup_home" "$root/root/.rustup"
    exec chroot "$root" env -i HOME=/root LC_ALL=C PATH=/root/.cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        CARGO_TERM_COLOR=never bash -c "cd /culvert && \"\$@\"" fresh "$@"
' fresh "$work/root" "$cargo_home" "$rustup_home" "$@"
