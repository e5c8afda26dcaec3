#!/usr/bin/env bash
# Shows Culvert at work: installs what is missing, builds, and runs tests/lab/src/bin/demo.
#
#   scripts/demo.sh       the whole product, then a client and a gateway that are both behind NAT, then a tunnel alone
#   scripts/demo.sh PART  `access`, `nats` or `tunnel` alone, or `ha`: two portals on PostgreSQL behind HAProxy, which are killed
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in
ha) scripts/setup.sh demo-ha ;;
*) scripts/setup.sh demo ;;
esac
PATH=$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin
if [ "$(id -u)" -ne 0 ]; then
    echo "demo.sh: the demo makes network namespaces and needs root: sudo make demo" >&2
    exit 1
fi
# Unpacked, not installed: installed it would start with the machine.
[ "${1:-}" != ha ] || scripts/peers.sh haproxy
echo "building Culvert (some eight minutes on two cores the first time) …"
# One at a time: built together they would share features, and `make bench` would build all of it again.
cargo build --release -p culvert
cargo build --release -p culvert-lab --bin demo
target_dir=${CARGO_TARGET_DIR:-target}
CULVERT_BIN=$(realpath "$target_dir/release/culvert") exec "$target_dir/release/demo" "$@"
