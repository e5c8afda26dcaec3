"""A tray in the place of a desktop's: owns the watcher's name, and prints the sender of each item that registers."""

import gi

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

NAME, PATH = "org.kde.StatusNotifierWatcher", "/StatusNotifierWatcher"
INTERFACE = f"""<node><interface name="{NAME}">
<method name="RegisterStatusNotifierItem"><arg type="s" direction="in"/></method>
<property name="IsStatusNotifierHostRegistered" type="b" access="read"/>
</interface></node>"""


def called(_connection, sender, _path, _interface, _method, parameters, invocation):
    service = parameters.unpack()[0]
    print(service if service.startswith(":") else sender, flush=True)
    invocation.return_value(None)


def acquired(connection, _name):
    interface = Gio.DBusNodeInfo.new_for_xml(INTERFACE).interfaces[0]
    connection.register_object(PATH, interface, called, lambda *_: GLib.Variant("b", True), None)


Gio.bus_own_name(Gio.BusType.SESSION, NAME, Gio.BusNameOwnerFlags.NONE, acquired, None, None)
GLib.MainLoop().run()
