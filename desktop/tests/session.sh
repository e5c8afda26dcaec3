#!/usr/bin/env bash
# Runs a command in a session of its own, with a display without a screen and a D-Bus. No session of the machine is
# touched, and neither is its system bus. No GPU is asked for.
#
# usage: desktop/tests/session.sh DIR COMMAND…
#   DIR  an empty directory for files of the session
set -eu

for tool in Xvfb dbus-run-session import; do
    command -v "$tool" >/dev/null || { echo "session.sh: $tool is missing: run scripts/setup.sh desktop" >&2; exit 1; }
done
dir=$1
shift
mkdir -p "$dir/run" "$dir/config" "$dir/data"
chmod 700 "$dir/run"

trap '[ -z "${display_pid:-}" ] || kill "$display_pid"' EXIT
# Xvfb chooses a display that is free and writes its number. It stays when its first client, the bus, leaves.
Xvfb -displayfd 3 -screen 0 900x760x24 -nolisten tcp -noreset 3>"$dir/display" 2>/dev/null &
display_pid=$!
while [ ! -s "$dir/display" ]; do kill -0 "$display_pid"; sleep 0.05; done

env -u WAYLAND_DISPLAY -u DBUS_SESSION_BUS_ADDRESS DISPLAY=":$(cat "$dir/display")" \
    DBUS_SYSTEM_BUS_ADDRESS="unix:path=$dir/no-system-bus" \
    XDG_RUNTIME_DIR="$dir/run" XDG_CONFIG_HOME="$dir/config" XDG_DATA_HOME="$dir/data" \
    GTK_A11Y=atspi GDK_BACKEND=x11 GSK_RENDERER=cairo GTK_USE_PORTAL=0 GSETTINGS_BACKEND=memory NO_AT_BRIDGE=0 \
    LANG=C.UTF-8 LC_ALL=C.UTF-8 LANGUAGE=en TZ=UTC \
    dbus-run-session -- "$@"
