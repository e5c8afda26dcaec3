#!/usr/bin/env bash
# Makes a fresh Debian or Ubuntu machine ready to build, demonstrate, test and measure Culvert.
# Says nothing when nothing is missing.
#
#   scripts/setup.sh         all of it
#   scripts/setup.sh demo    what the demonstration needs, without what only tests and packages do
#   scripts/setup.sh demo-ha the same for the demonstration of several portals
#   scripts/setup.sh study   all of it, and what only the study of performance needs
#   scripts/setup.sh arm64   what the demonstration needs, and what builds and tests for arm64 processors (scripts/arm64.sh)
#   scripts/setup.sh desktop what the window for desktops needs to be built and tested, without what only others do
#
# Exit status: 0 ready; 1 something is missing that this script cannot install, as it has said.
set -u

# A command that tells whether a package is there, the package, and what alone needs it: tests, the demonstration of
# several portals, the study, arm64, the window for desktops.
needed() {
    cat <<'TABLE'
cc            build-essential
make          build-essential
ip            iproute2
tc            iproute2
iperf3        iperf3
wg            wireguard-tools
wg-quick      wireguard-tools
nft           nftables
ping          iputils-ping
ps            procps
sysctl        procps
ethtool       ethtool
tcpdump       tcpdump  tests
age           age  tests
sqlite3       sqlite3  tests
pg_ctlcluster  postgresql  tests demo-ha
pgbouncer     pgbouncer  tests
setpriv       util-linux
git           git
ssh-keygen    openssh-client  tests
objcopy       binutils
cmake         cmake
curl          curl
dbus-daemon   dbus
strace        strace
node          nodejs  tests
npm           npm  tests
musl-gcc      musl-tools  tests
systemctl     systemd  tests
setcap        libcap2-bin  tests
script        bsdutils  tests
dh            debhelper  tests
mmdebstrap    mmdebstrap  tests
systemd-nspawn  systemd-container  tests
perf          linux-perf  study
sshd          openssh-server  study
chromium      chromium  tests
chromedriver  chromium-driver  tests
npm           npm  tests
aarch64-linux-gnu-gcc  gcc-aarch64-linux-gnu  arm64
qemu-aarch64-static  qemu-user-static  arm64
pkg-config    pkg-config  desktop
Xvfb          xvfb  desktop
import        imagemagick  desktop
appstreamcli  appstream  desktop
desktop-file-validate  desktop-file-utils  desktop
TABLE
}

# What a package is called here: Ubuntu has other names for some of Debian's.
called_here() { # called_here PACKAGE
    if apt-cache show "$1" >/dev/null 2>&1; then
        echo "$1"
        return
    fi
    case $1 in
    linux-perf) echo linux-tools-generic ;;
    chromium) echo chromium-browser ;;
    chromium-driver) echo chromium-chromedriver ;;
    *) echo "$1" ;;
    esac
}

status=0
PATH=$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin
case ${1:-} in
demo) only="" ;;
demo-ha) only="demo-ha" ;;
study) only="tests study" ;;
arm64) only="arm64" ;;
desktop) only="desktop" ;;
*) only=tests ;;
esac
missing=$(needed | while read -r tool package for; do
    is_needed=$([ -n "$for" ] || echo yes)
    for one in $for; do
        [[ " $only " != *" $one "* ]] || is_needed=yes
    done
    [ -n "$is_needed" ] || continue
    command -v "$tool" >/dev/null 2>&1 || echo "$package"
done | sort -u | tr '\n' ' ')
# Linters of the container's files are installed into an environment of their own.
[[ " $only " != *" tests "* ]] || python3 -c 'import ensurepip' 2>/dev/null || missing="${missing}python3-venv "
[[ " $only " != *" arm64 "* ]] || [ "$(uname -m)" = aarch64 ] || [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing="${missing}libc6-dev-arm64-cross "
# Libraries, icons, and what operates the window by AT-SPI.
if [[ " $only " = *" desktop "* ]]; then
    pkg-config --exists 'libadwaita-1 >= 1.2' 2>/dev/null || missing="${missing}libgtk-4-dev libadwaita-1-dev "
    [ -e /usr/share/icons/Adwaita/index.theme ] || missing="${missing}adwaita-icon-theme "
    [ -x /usr/libexec/at-spi-bus-launcher ] || missing="${missing}at-spi2-core "
    [ -e /usr/share/i18n/locales/de_DE ] || missing="${missing}locales "
    /usr/bin/python3 -c 'import gi; gi.require_version("Atspi", "2.0")' 2>/dev/null || missing="${missing}python3-gi gir1.2-atspi-2.0 "
fi
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="${missing}ca-certificates "

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup.sh: this system has no apt-get. Please install what Debian calls: $missing" >&2
        exit 1
    fi
    install="apt-get install -y --no-install-recommends"
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup.sh: these packages are missing. Install them as root, then start again:" >&2
        echo "    apt-get update && $install $missing" >&2
        exit 1
    fi
    echo "installing $missing…"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # The study copies a file by a server of its own, and tests start their own databases; those of the packages are
    # not to listen.
    keep_off=
    if [[ " $missing" = *" openssh-server "* || " $missing" = *" postgresql "* || " $missing" = *" pgbouncer "* ]] && [ ! -e /usr/sbin/policy-rc.d ]; then
        keep_off=/usr/sbin/policy-rc.d
        # Left behind it would keep every service of this machine from starting.
        trap 'rm -f "$keep_off"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$keep_off" && chmod 755 "$keep_off"
    fi
    if [[ " $missing" = *" postgresql "* ]]; then
        # No database of the machine: tests make their own.
        mkdir -p /etc/postgresql-common/createcluster.d
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/culvert.conf
    fi
    # The package lists of a fresh machine are empty or old.
    apt-get update >"$log" 2>&1 || cat "$log" >&2
    packages=$(for package in $missing; do called_here "$package"; done | tr '\n' ' ')
    # shellcheck disable=SC2086  # the lists are meant to be split
    if ! $install $packages >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        echo "setup.sh: '$install $packages' failed, see above." >&2
        status=1
    fi
    rm -f "$log"
    if [ -n "$keep_off" ]; then
        rm -f "$keep_off"
        # Nor after the next start of the machine: whoever wants to be reached by it says so.
        [[ " $missing" != *" openssh-server "* ]] || systemctl disable --quiet ssh.service ssh.socket 2>/dev/null
    fi
fi

# The browser without windows, which halves the time of its tests. Where there is none, they use the whole one.
shell=chromium-headless-shell
if [[ " $only " = *" tests "* ]] && [ "$(id -u)" -eq 0 ] && ! command -v $shell >/dev/null 2>&1 && apt-cache show $shell >/dev/null 2>&1; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $shell >/dev/null 2>&1
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup.sh: Rust is missing. Install it with" >&2
    echo "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2
    echo "and open a new shell. The toolchain file of this repository then selects the version." >&2
    status=1
fi

# Standard libraries of other platforms, in which checks compile the pure crates. They are no part of the product: where
# rustup can't fetch them, the checks say that they were left out.
targets=""
[[ " $only " != *" tests "* ]] || targets="x86_64-pc-windows-gnu aarch64-apple-darwin"
[[ " $only " != *" arm64 "* ]] || targets="aarch64-unknown-linux-gnu"
root=$(dirname "$0")/..
absent=""
for target in $targets; do
    folder=$(cd "$root" && rustc --print target-libdir --target "$target" 2>/dev/null)
    [ -d "$folder" ] || absent="$absent $target"
done
if [ -n "$absent" ] && command -v rustup >/dev/null 2>&1; then
    # shellcheck disable=SC2086  # the list is meant to be split
    if ! (cd "$root" && timeout 120 rustup target add $absent) >/dev/null 2>&1; then
        echo "setup.sh: rustup can't fetch the standard library of$absent: checks for it are left out." >&2
        [ "$only" != arm64 ] || status=1
    fi
fi
if [ ! -e /dev/net/tun ] && ! { [ "$(id -u)" -eq 0 ] && modprobe tun 2>/dev/null; }; then
    echo "setup.sh: there is no /dev/net/tun. Load the kernel module with 'modprobe tun'; a container" >&2
    echo "needs the device passed in (--device /dev/net/tun) and the capability NET_ADMIN." >&2
    status=1
fi
exit "$status"
