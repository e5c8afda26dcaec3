#!/usr/bin/env bash
# Runs the window on a display and a D-Bus of its own, and has tests/window.py operate it as a screen reader does.
# Pictures of each state are left in target/pictures.
#
# usage: desktop/tests/window.sh [NAME…]   the tests with these names, otherwise all
#        desktop/tests/window.sh --bench   measures it by tests/bench.py
set -eu
cd "$(dirname "$0")/.."

for tool in Xvfb dbus-run-session import; do
    command -v "$tool" >/dev/null || { echo "window.sh: $tool is missing: run scripts/setup.sh desktop" >&2; exit 1; }
done
script=window.py
[ "${1:-}" != --bench ] || { script=bench.py; shift; }
program=${CULVERT_DESKTOP:-$PWD/target/debug/culvert-desktop}
[ -x "$program" ] || { echo "window.sh: no $program: run 'make desktop'" >&2; exit 1; }

work=$(mktemp -d)
trap '[ -z "${display_pid:-}" ] || kill "$display_pid"; rm -rf "$work"' EXIT
mkdir -p target/pictures "$work/run" "$work/config" "$work/data"
chmod 700 "$work/run"

# Xvfb chooses a display that is free and writes its number. It stays when its first client, the bus, leaves.
Xvfb -displayfd 3 -screen 0 900x760x24 -nolisten tcp -noreset 3>"$work/display" 2>/dev/null &
display_pid=$!
while [ ! -s "$work/display" ]; do kill -0 "$display_pid"; sleep 0.05; done

# No session of this machine is touched, and no portal or GPU is asked for.
env -u WAYLAND_DISPLAY -u DBUS_SESSION_BUS_ADDRESS DISPLAY=":$(cat "$work/display")" \
    XDG_RUNTIME_DIR="$work/run" XDG_CONFIG_HOME="$work/config" XDG_DATA_HOME="$work/data" \
    GTK_A11Y=atspi GDK_BACKEND=x11 GSK_RENDERER=cairo GTK_USE_PORTAL=0 GSETTINGS_BACKEND=memory NO_AT_BRIDGE=0 \
    LANG=C.UTF-8 LC_ALL=C.UTF-8 LANGUAGE=en TZ=UTC \
    dbus-run-session -- /usr/bin/python3 "tests/$script" "$program" "$work" "$PWD/target/pictures" "$@"
