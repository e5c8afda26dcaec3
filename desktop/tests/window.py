"""Operates the window by its accessibility tree (AT-SPI), against a scripted service."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True
import harness  # noqa: E402
import keys  # noqa: E402
import statuses  # noqa: E402
from gi.repository import Gio, GLib  # noqa: E402

PROGRAM, WORK, PICTURES = sys.argv[1:4]


class Case:
    """A window with its service, which is removed afterwards."""

    number = 0

    def __init__(self, answer, *options, no_watch=None, **variables):
        Case.number += 1
        self.socket = f"{WORK}/socket-{Case.number}"
        self.service = harness.Service(self.socket, no_watch)
        if answer is not None:
            self.service.start(answer)
        self.window = harness.Desktop(PROGRAM, self.socket, PICTURES, options, variables)

    def __enter__(self):
        return self.service, self.window

    def __exit__(self, *_):
        self.window.end()


def the_window_shows_each_state():
    """Service away, signed out, connecting, connected, portal away, refused, another version: each as it is."""
    with Case(None) as (service, window):
        window.sees("The service is not running")
        window.picture("away")
        service.start(statuses.off("signed_out"))
        window.sees("Sign in to begin")
        window.picture("signed-out")
        service.answer = statuses.off("down")
        window.sees("Disconnected")
        service.answer = statuses.status(ready=False, portal={"state": "connecting", "sessions": 0})
        window.sees("Connecting …")
        service.answer = statuses.status()
        window.sees("Connected to portal.example.com", "Customer database", "Granted", "A condition of the policy does not hold now: the client is not verified",
                    "Outside of the hours of the policy. Opens 2026-12-01 07:00")
        window.picture("connected")
        service.answer = statuses.portal_away()
        window.sees("The portal does not answer", "Next attempt in ", "Customer database")
        window.picture("portal-away")
        service.answer = statuses.off("refused", {"code": "denied", "text": "revoked"})
        window.sees("The portal refuses this computer", "An administrator has revoked this computer.")
        window.sees_not("Customer database")
        window.picture("refused")
        service.answer = {"schema_version": 2}
        window.sees("The service has another version")
        other = {"error": "schema_version 1 is not spoken here, but 3"}
        service.answer = lambda _: {**other, "code": "schema_version"}
        window.sees("It speaks form 3")
        service.stop()
        window.sees("The service is not running")


def a_service_that_goes_takes_its_resources_along():
    """Also right after the first state, and from the tree of a screen reader."""
    with Case(statuses.status()) as (service, window):
        window.sees("Customer database")
        service.stop()
        window.sees("The service is not running")
        window.sees_not("Customer database")


def commands_reach_the_service():
    """Connect, disconnect, and asking for access."""
    with Case(statuses.off("down")) as (service, window):
        window.sees("Disconnected")
        window.click("Connect")
        harness.wait("the command up", lambda: "up" in service.commands)
        service.answer = statuses.status()
        window.sees("Connected to portal.example.com")
        window.click("Ask for access to Payroll")
        harness.wait("the request", lambda: any("ask" in command for command in service.commands if command != "up"))
        window.click("Disconnect")
        harness.wait("the command down", lambda: "down" in service.commands)
        refused = {"error": "ada is no member of culvert", "code": "not_permitted"}
        service.answer = lambda asked: {"status": statuses.off("down")} if asked == "status" else refused
        window.sees("Disconnected")
        window.click("Connect")
        window.sees("The service refuses: ada is no member of culvert")


def a_long_refusal_is_shown_whole():
    """In as many lines as it takes, also in the narrowest window, and with a button that a screen reader names."""
    refusal = ("ada is no member of culvert, whose members may command the service: an administrator runs `sudo usermod -aG "
               "culvert ada` here, and ada logs out and in again after that; a restart is not needed")
    keyboard = keys.Keyboard()
    for width, lines in [(760, 3), (360, 6)]:
        with Case(statuses.off("down")) as (service, window):
            window.sees("Disconnected")
            keyboard.resize(width, 700)
            service.answer = lambda asked: {"status": statuses.off("down")} if asked == "status" else {"error": refusal}
            window.click("Connect")
            label = harness.wait("the refusal", lambda: window.find(f"The service refuses: {refusal}", "label"))
            assert_named(window, "the refusal")
            extents = lambda node: node.get_extents(harness.Atspi.CoordType.WINDOW)  # noqa: E731
            # A line of the smallest font that is read is 14 pixels high.
            harness.wait("its height", lambda: extents(label).height >= lines * 14)
            window.picture(f"refusal-{width}")
            window.sees(refusal)
            window.click("Close")
            window.sees_not(refusal)


def favourites_stay():
    """A favourite comes first, and is kept for the next start."""
    with Case(statuses.status()) as (_, window):
        window.click("Add Wiki to favourites")
        window.sees("Remove Wiki from favourites")
    with Case(statuses.status()) as (_, window):
        window.sees("Remove Wiki from favourites")
        window.click("Remove Wiki from favourites")
        window.sees("Add Wiki to favourites")


def names_are_text():
    """Markup and marks of writing direction are shown and not obeyed."""
    with Case(statuses.status()) as (_, window):
        window.sees("<b>Markup</b> & more", "\ufffdexe.elbisrever", "שרת הקבצים")


def assert_named(window, where):
    """Each control has a name, once."""
    assert not window.unnamed(), f"{where}: {window.unnamed()}"
    assert not window.doubled(), f"{where}: {window.doubled()}"


def every_control_has_a_name():
    """On each page."""
    with Case(statuses.status(problems=["the clock is off: timedatectl set-ntp true"])) as (_, window):
        window.sees("Customer database")
        for page in ["Resources", "Gateways", "Diagnostics"]:
            window.click(page)
            window.sees({"Resources": "Wiki", "Gateways": "berlin-1", "Diagnostics": "Network check"}[page])
            assert_named(window, page)
            window.picture(page.lower())


def activate(action):
    """Activates an action of the window, as a key does."""
    bus = Gio.bus_get_sync(Gio.BusType.SESSION)
    parameters = GLib.Variant("(sava{sv})", (action, [], {}))
    bus.call_sync("org.culvert.Desktop", "/org/culvert/Desktop", "org.gtk.Actions", "Activate", parameters, None, 0, -1,
                  None)


def dialogs_are_named():
    """Settings, keys, about and questions, each with a name for every control, once."""
    for action, text in [("settings", "Start with the session"), ("shortcuts", "Network check"),
                         ("about", "Access to private resources"), ("sign-out", "Sign out of this computer?")]:
        with Case(statuses.status()) as (_, window):
            window.sees("Customer database")
            activate(action)
            window.sees(text)
            assert_named(window, action)
            window.picture(action)


def switch_of(window, name):
    """The switch with this name. None if there is none."""
    for node in window.nodes():
        if node.get_role_name() in ["check box", "switch"] and harness.plain(node.get_name()) == name:
            return node
    return None


def position_of(window, name):
    """If the switch is on, and if it can be used. None if there is none."""
    switch = switch_of(window, name)
    states = switch and switch.get_state_set()
    has = harness.Atspi.StateType
    return states and (states.contains(has.CHECKED), states.contains(has.SENSITIVE))


def names_are_switched_in_the_settings():
    """The switch shows the setting of the service alone. It says why it is disabled, and why the service refuses."""
    title = "Names of resources (DNS)"
    with_dns = lambda on: statuses.status(service=statuses.service("up", settings={"dns": on}))  # noqa: E731
    with Case(with_dns(True)) as (service, window):
        window.sees("Customer database")
        activate("settings")
        harness.wait("the switch, on", lambda: position_of(window, title) == (True, True))
        assert_named(window, "settings")
        switch_of(window, title).do_action(0)
        harness.wait("the command", lambda: {"settings": {"dns": False}} in service.commands)
        harness.wait("the switch, still on", lambda: position_of(window, title) == (True, True))
        service.answer = with_dns(False)
        harness.wait("the switch, off", lambda: position_of(window, title) == (False, True))
        window.picture("settings-dns")
        refusal = "the client was started with `--dns off`: an administrator changes that"
        refused = {"error": refusal, "code": "dns_off"}
        service.answer = lambda asked: {"status": with_dns(False)} if asked == "status" else refused
        switch_of(window, title).do_action(0)
        window.sees(f"The service refuses: {refusal}")
        harness.wait("the switch, still off", lambda: position_of(window, title) == (False, True))
        window.picture("settings-dns-refused")
        service.answer = statuses.status()
        window.sees("This service does not take the setting.")
        assert position_of(window, title) is None, "a setting that is not told is shown"
        service.answer = statuses.status(service=statuses.service("up", control="token"))
        window.sees("The administrator of this computer decides it.")
        service.stop()
        window.sees("The service does not answer.")
        assert position_of(window, title) is None


def access_that_ends_leaves_a_trace():
    """A resource that is gone stays in the list, with the hour, until it is back or somebody dismisses it."""
    state = statuses.status()
    without = lambda *names: {**state, "resources": [r for r in state["resources"] if r["name"] not in names]}  # noqa: E731
    with Case(state) as (service, window):
        window.sees("db.corp.example, Granted")
        before = int(time.time())
        service.answer = without("Customer database", "Payroll")
        window.sees("db.corp.example, Ended", "payroll.corp.example, Ended")
        hours = [time.strftime("Access ended: %Y-%m-%d %H:%M", time.gmtime(at)) for at in (before, time.time())]
        harness.wait("the hour", lambda: any(hour in window.texts() for hour in hours))
        window.picture("ended")
        for button in ["Copy the address of Payroll", "Ask for access to Payroll", "Open Payroll"]:
            assert window.find(button) is None, f"{button}: there is none any more"
        assert not window.unnamed(), window.unnamed()
        window.click("Remove Payroll from the list")
        window.sees_not("payroll.corp.example")
        service.answer = without("Payroll")
        window.sees("db.corp.example, Granted")
        window.sees_not("Access ended")
        service.answer = without("Customer database")
        window.sees("db.corp.example, Ended", "payroll.corp.example, Denied")
        # A person who disconnects and comes back sees it, and another account does not.
        service.answer = statuses.off("down")
        window.sees("Disconnected")
        service.answer = without("Customer database")
        window.sees("db.corp.example, Ended")
        service.answer = {**without("Customer database"), "client": "cli_2"}
        window.sees_not("db.corp.example")
        window.sees("wiki.corp.example")


def access_that_ends_unseen_leaves_a_trace():
    """A resource that goes while the client is down, or the service away, is there as ended when the list is back. Another
    account sees nothing of it."""
    state = statuses.status()
    without = lambda *names: {**state, "resources": [r for r in state["resources"] if r["name"] not in names]}  # noqa: E731
    with Case(state) as (service, window):
        window.sees("db.corp.example, Granted")
        service.answer = statuses.off("down")
        window.sees("Disconnected")
        service.answer = without("Customer database")
        window.sees("db.corp.example, Ended", "Access ended by 20")
        service.stop()
        window.sees("The service is not running")
        window.sees_not("db.corp.example")
        service.start(statuses.status(ready=False, resources=[], portal={"state": "connecting", "sessions": 0}))
        window.sees("Connecting …")
        service.answer = without("Customer database", "Payroll")
        window.sees("db.corp.example, Ended", "payroll.corp.example, Ended")
        window.picture("ended-unseen")
        service.stop()
        window.sees("The service is not running")
        service.start({**without("Customer database", "Payroll", "Wiki"), "client": "cli_2"})
        window.sees("git.corp.example")
        for address in ["db.corp.example", "payroll.corp.example", "wiki.corp.example"]:
            window.sees_not(address)
        service.answer = statuses.off("signed_out")
        window.sees("Sign in to begin")
        service.answer = {**without("Customer database", "Payroll", "Wiki", "Source code"), "client": "cli_2"}
        window.sees("tickets.corp.example")
        window.sees_not("git.corp.example")


def a_resource_in_use_has_its_rate():
    """The rate of a resource comes from two counts of its bytes, and goes when they stay as they are."""
    state = statuses.status()

    def counted(received):
        first = {**state["resources"][0], "state": "granted", "gateway": "gw_1", "why": None}
        first |= {"sent_bytes": 0, "received_bytes": received}
        return {**state, "resources": [first, *state["resources"][1:]]}

    with Case(counted(0)) as (service, window):
        window.sees("Granted")
        rated = lambda: any("bit/s in, 0 bit/s out" in text for text in window.texts())  # noqa: E731
        assert not rated(), "one count is no rate"
        beats = (counted(beat * 1_000_000) for beat in range(1, 60))

        def beat():
            service.answer = next(beats)
            time.sleep(1)
            return rated()

        harness.wait("a rate", beat)
        window.picture("rate")
        harness.wait("the end of the rate", lambda: not rated())


def ten_thousand_resources():
    """The window opens, finds, and follows a change of one. make bench-desktop measures it."""
    with Case(statuses.many(10_000)) as (service, window):
        window.sees("10000 of 10000")
        window.picture("many")
        changed = {**service.answer["resources"][0], "state": "granted"}
        service.answer = {**service.answer, "resources": [changed, *service.answer["resources"][1:]]}
        window.sees("host-0.corp.example, Granted")
        assert (len(service.watched), service.asked) == (1, 0), "it is asked although it tells changes by itself"


def an_older_service_is_polled():
    """A service without `watch` is shown as well, and one with too many watchers: that is no fault of anything."""
    for refusal in [harness.OLDER, harness.UNKNOWN, harness.TOO_MANY]:
        with Case(statuses.off("down"), no_watch=refusal) as (service, window):
            window.sees("Disconnected")
            service.answer = statuses.status()
            window.sees("Connected to portal.example.com", "Customer database")
            window.sees_not("programs of this user")
            service.stop()
            window.sees("The service is not running")


def a_window_that_was_asleep_is_right():
    """A program that was stopped shows the state of now, also after the service gave its connection up."""
    with Case(statuses.status()) as (service, window):
        window.sees("Connected to portal.example.com")
        window.process.send_signal(signal.SIGSTOP)
        service.answer = statuses.portal_away()
        service.stop()
        service.start(statuses.off("refused", {"code": "denied", "text": "revoked"}))
        window.process.send_signal(signal.SIGCONT)
        start = time.monotonic()
        window.sees("An administrator has revoked this computer.")
        window.sees_not("Customer database")
        print(f"  right {time.monotonic() - start:.1f} s after it went on")


class Logind:
    """A system bus of the test's own, and a logind there."""

    def __init__(self):
        self.bus = subprocess.Popen(["dbus-daemon", "--session", "--nofork", "--print-address=1"], stdout=subprocess.PIPE,
                                    text=True)
        self.address = self.bus.stdout.readline().strip()
        script = pathlib.Path(__file__).with_name("logind.py")
        self.process = subprocess.Popen(["/usr/bin/python3", script, self.address], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def says(self, sleeps):
        self.process.stdin.write(f"{str(sleeps).lower()}\n")
        self.process.stdin.flush()

    def stop(self):
        for process in [self.process, self.bus]:
            process.kill()
            process.wait()


def falls_asleep(logind, window):
    """Says so until the window, which comes to the bus by itself, has heard it."""
    def has_heard():
        logind.says(True)
        return any("Asking the service …" in text for text in window.texts())
    harness.wait("the window that has heard it", has_heard)


def a_machine_that_slept():
    """The state from before sleep is not shown. On waking, the service is asked at once, by one connection alone."""
    logind = Logind()
    try:
        with Case(statuses.status(), DBUS_SYSTEM_BUS_ADDRESS=logind.address) as (service, window):
            window.sees("Connected to portal.example.com", "Customer database")
            falls_asleep(logind, window)
            window.sees("This computer was asleep.")
            window.sees_not("Customer database")
            window.sees_not("Connected to portal.example.com")
            window.picture("asleep")
            asked = len(service.watched)
            logind.says(False)
            start = time.monotonic()
            window.sees("Connected to portal.example.com", "Customer database")
            print(f"  right {time.monotonic() - start:.1f} s after waking")
            assert len(service.watched) == asked + 1, service.watched
            # A machine whose service says nothing any more: the state of before stays away.
            falls_asleep(logind, window)
            service.stop()
            logind.says(False)
            window.sees("The service is not running")
            service.start(statuses.portal_away())
            window.sees("The portal does not answer")
            # The window outlives the system's bus.
            logind.stop()
            service.answer = statuses.off("down")
            window.sees("Disconnected")
            assert window.process.poll() is None
    finally:
        logind.stop()


def settings(**values):
    path = pathlib.Path(os.environ["XDG_CONFIG_HOME"], "culvert-desktop", "settings.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")


def browser():
    """A program that opens URLs and keeps them in a file, for this session alone."""
    opened = pathlib.Path(WORK, "opened")
    script = pathlib.Path(WORK, "browser")
    script.write_text(f"#!/bin/sh\necho \"$1\" >>{opened}\n", encoding="utf-8")
    script.chmod(0o755)
    data = pathlib.Path(os.environ["XDG_DATA_HOME"], "applications")
    data.mkdir(parents=True, exist_ok=True)
    entry = f"[Desktop Entry]\nType=Application\nName=B\nExec={script} %u\nMimeType=x-scheme-handler/https;\n"
    (data / "b.desktop").write_text(entry, encoding="utf-8")
    chosen = "[Default Applications]\nx-scheme-handler/https=b.desktop\n"
    pathlib.Path(os.environ["XDG_CONFIG_HOME"], "mimeapps.list").write_text(chosen, encoding="utf-8")
    return opened


def opened_by(opened):
    return opened.read_text(encoding="utf-8").split() if opened.exists() else []


def sign_in(service, window):
    window.click("Sign in")
    window.click("Sign in with the browser")
    portal = {"sign_in": {"portal": statuses.PORTAL}}
    harness.wait("the request", lambda: portal in service.commands)
    service.commands.clear()
    service.answer = statuses.signing_in("asking")
    window.sees("Asking the portal for a code")
    service.answer = statuses.waiting()
    window.sees("BCDF-GHJK", "Compare this code", "Valid for", f"{statuses.PORTAL}/device?code=BCDF-GHJK")


def signing_in():
    """The service carries the sign-in out: the browser opens, the code is shown to be compared, each end is said."""
    settings(portal=statuses.PORTAL)
    opened = browser()
    with Case(statuses.off("signed_out")) as (service, window):
        window.click("Sign in")
        window.sees("With the browser", "With a token")
        assert not window.unnamed(), window.unnamed()
        window.picture("sign-in")
        window.click("Sign in with the browser")
        harness.wait("the request", lambda: {"sign_in": {"portal": statuses.PORTAL}} in service.commands)
        service.answer = statuses.signing_in("asking")
        window.sees("Asking the portal for a code")
        service.answer = statuses.waiting()
        window.sees("BCDF-GHJK", "Compare this code", "Valid for")
        harness.wait("the browser", lambda: opened_by(opened))
        window.picture("code")
        assert opened_by(opened) == [f"{statuses.PORTAL}/device?code=BCDF-GHJK"], opened_by(opened)
        # Never finished: the service says so, and it can be begun anew.
        service.answer = statuses.failed("expired")
        window.sees("Signing in failed", "The code was not approved in time.")
        window.picture("sign-in-failed")
        sign_in(service, window)
        window.click("Cancel")
        harness.wait("the end", lambda: "cancel_sign_in" in service.commands)
        service.answer = statuses.off("signed_out")
        window.sees("Sign in to begin")
        sign_in(service, window)
        service.answer = statuses.status()
        window.sees("Connected to portal.example.com")
        harness.wait("the browser", lambda: len(opened_by(opened)) >= 3)
        assert len(opened_by(opened)) == 3, opened_by(opened)


def a_wrong_entry_of_the_sign_in():
    """It is said in the dialog, beside the field, until the field changes; nothing is sent."""
    settings(portal="http://portal.example.com")
    portal = "Enter an address such as portal.example.com."
    certificate = "This is no SHA-256 fingerprint: it has 43 characters"
    token = "This is no token: it is empty, too long or has spaces."
    keyboard = keys.Keyboard()
    with Case(statuses.off("signed_out")) as (service, window):
        window.click("Sign in")
        window.sees("With the browser")
        window.sees_not(portal)
        window.click("Sign in with the browser")
        window.sees(portal)
        assert not window.unnamed(), window.unnamed()
        window.picture("sign-in-wrong")
        # The field has the focus: what is typed replaces what is in it.
        keyboard.press("Control_L+a")
        keyboard.write("vpn")
        window.sees_not(portal)
        keyboard.press("Tab")
        keyboard.write("abc")
        keyboard.press("Return")
        window.sees(certificate)
        window.click("Sign in with the token")
        window.sees(token, certificate)
        window.picture("sign-in-token-wrong")
        assert not service.commands, service.commands


def a_sign_in_of_another_window():
    """A window that is opened anew, or of another user, shows a sign-in that is under way, and opens no browser."""
    opened = browser()
    opened.unlink(missing_ok=True)
    with Case(statuses.waiting()) as (service, window):
        window.sees("BCDF-GHJK", f"{statuses.PORTAL}/device?code=BCDF-GHJK")
        # Another session has a D-Bus of its own; its window is on the same display.
        command = ["dbus-run-session", "--", PROGRAM, "--socket", service.path]
        accessibility = Gio.bus_get_sync(Gio.BusType.SESSION).call_sync(
            "org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress", None, None, 0, -1, None).unpack()[0]
        other = subprocess.Popen(command, env={**os.environ, "AT_SPI_BUS_ADDRESS": accessibility}, start_new_session=True)
        try:
            harness.wait("two watchers", lambda: len(service.connections) == 2)
            service.answer = statuses.status()
            window.sees("Connected to portal.example.com")
            window.click("Disconnect")
            harness.wait("the command", lambda: "down" in service.commands)
            assert other.poll() is None, "the other window has ended"
            assert not opened.exists(), opened.read_text(encoding="utf-8")
        finally:
            os.killpg(other.pid, signal.SIGTERM)
            other.wait(harness.LIMIT)


def a_browser_that_does_not_open():
    """It is said, and code and address can be copied."""
    settings(portal=statuses.PORTAL)
    browser()
    pathlib.Path(os.environ["XDG_DATA_HOME"], "applications", "b.desktop").unlink()
    # All that the system shares but its programs.
    share = pathlib.Path(WORK, "share")
    share.mkdir()
    for directory in pathlib.Path("/usr/share").iterdir():
        if directory.name != "applications":
            (share / directory.name).symlink_to(directory)
    with Case(statuses.off("signed_out"), XDG_DATA_DIRS=str(share)) as (service, window):
        sign_in(service, window)
        window.sees("No browser opened. Copy the link")
        window.picture("no-browser")
        for copy in ["Copy code", "Copy link"]:
            window.click(copy)


def a_service_that_signs_nobody_in():
    """An older service takes a token alone, and the dialog says what to do."""
    old = {**statuses.off("signed_out"), "service": statuses.service("signed_out", signs_in=False)}
    with Case(old) as (_, window):
        window.click("Sign in")
        window.sees("Update culvert-client", "With a token")
        window.sees_not("Portal address")


class Tray:
    """A tray of this session, and the item that registered there."""

    def __init__(self):
        self.items = []
        self.bus = Gio.bus_get_sync(Gio.BusType.SESSION)
        self.process = None

    def start(self):
        script = pathlib.Path(__file__).with_name("tray.py")
        self.process = subprocess.Popen(["/usr/bin/python3", script], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.items.extend, args=(map(str.strip, self.process.stdout),), daemon=True).start()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.items.clear()

    def call(self, path, interface, method, signature, *values):
        parameters = GLib.Variant(signature, values)
        return self.bus.call_sync(self.items[0], path, interface, method, parameters, None, 0, -1, None).unpack()

    def property(self, name):
        return self.call("/StatusNotifierItem", "org.freedesktop.DBus.Properties", "Get", "(ss)",
                         "org.kde.StatusNotifierItem", name)[0]

    def pixels(self, name="IconPixmap"):
        """The pixels of the icon in each size: alpha, red, green and blue."""
        sizes = {}
        for width, height, data in self.property(name):
            assert width == height and len(data) == 4 * width * height, (width, height, len(data))
            sizes[width] = [tuple(data[at:at + 4]) for at in range(0, len(data), 4)]
        return sizes

    def menu(self):
        """The label of each entry, with its number."""
        _, (_, _, entries) = self.call("/MenuBar", "com.canonical.dbusmenu", "GetLayout", "(iias)", 0, -1, [])
        return {entry[1].get("label", ""): entry[0] for entry in entries}

    def click(self, label):
        self.call("/MenuBar", "com.canonical.dbusmenu", "Event", "(isvu)", self.menu()[label], "clicked",
                  GLib.Variant("i", 0), 0)


def the_tray():
    """An icon for each state, with a menu that commands. It comes back when the tray does, and a closed window stays there."""
    tray = Tray()
    with Case(statuses.off("down"), "--hidden") as (service, window):
        try:
            harness.wait("the window's first question", lambda: service.watched)
            tray.start()
            harness.wait("the item", lambda: tray.items)
            harness.wait("the state", lambda: tray.property("Title") == "Disconnected")
            icon = tray.property("IconName")
            assert list(tray.menu()) == ["Disconnected", "", "Show window", "Connect", "Sign out", "Quit"], tray.menu()
            tray.click("Connect")
            harness.wait("the command", lambda: "up" in service.commands)
            service.answer = statuses.status()
            harness.wait("the state", lambda: tray.property("Title") == "Connected to portal.example.com")
            assert tray.property("IconName") != icon
            assert "Disconnect" in tray.menu() and "Connect" not in tray.menu(), tray.menu()
            tray.stop()
            tray.start()
            harness.wait("the item again", lambda: tray.items)
            tray.click("Show window")
            window.sees("Customer database")
            tray.click("Sign out")
            window.sees("Sign out of this computer?")
            window.click("Cancel")
            window.sees_not("Sign out of this computer?")
            activate("close")
            harness.wait("no window", lambda: not any(window.nodes()))
            assert tray.property("Status") == "Active"
            tray.call("/StatusNotifierItem", "org.kde.StatusNotifierItem", "Activate", "(ii)", 0, 0)
            window.sees("Customer database")
            tray.click("Quit")
            window.process.wait(harness.LIMIT)
        finally:
            tray.process.kill()
            tray.process.wait()


def draw_pixels(states):
    """A picture of the icon in each state and size, on a light panel and a dark one."""
    rows = []
    for panel in [(250, 250, 250), (30, 30, 30)]:
        for sizes in states.values():
            for y in range(52):
                row = []
                for size, pixels in sizes.items():
                    for x in range(size + 4):
                        alpha, *colours = pixels[y * size + x] if x < size and y < size else (0, 0, 0, 0)
                        row += [(colour * alpha + behind * (255 - alpha)) // 255 for colour, behind in zip(colours, panel)]
                rows.append(bytes(row))
    path = pathlib.Path(PICTURES, "tray.ppm")
    path.write_bytes(b"P6 %d %d 255\n" % (len(rows[0]) // 3, len(rows)) + b"".join(rows))
    subprocess.run(["convert", path, "-scale", "300%", path.with_suffix(".png")], check=True)
    path.unlink()


def the_tray_has_pixels():
    """A tray that draws no icons of the theme gets the icon of each state in each size, and hears of a new one."""
    tray, heard = Tray(), []
    states = [("Disconnected", statuses.off("down")), ("Connected to portal.example.com", statuses.status()),
              ("The portal does not answer", statuses.portal_away()), ("Sign in to begin", statuses.off("signed_out")),
              ("The portal refuses this computer", statuses.off("refused", {"code": "denied", "text": "revoked"}))]
    with Case(states[0][1], "--hidden") as (service, window):
        try:
            harness.wait("the window's first question", lambda: service.watched)
            tray.start()
            harness.wait("the item", lambda: tray.items)
            tray.bus.signal_subscribe(tray.items[0], "org.kde.StatusNotifierItem", "NewIcon", "/StatusNotifierItem", None,
                                      Gio.DBusSignalFlags.NONE, lambda *_: heard.append(True))
            seen = {}
            for title, state in states:
                heard.clear()
                service.answer = state
                harness.wait("the state", lambda: tray.property("Title") == title)
                if seen:
                    harness.wait("NewIcon", lambda: GLib.MainContext.default().iteration(False) or heard)
                sizes = tray.pixels()
                assert list(sizes) == [16, 22, 24, 32, 48], list(sizes)
                assert tray.pixels("AttentionIconPixmap") == sizes
                for size, pixels in sizes.items():
                    assert pixels[0][0] < 64, f"{title}, {size}: the corner is not transparent: {pixels[0]}"
                    opaque = [colours for alpha, *colours in pixels if alpha == 255]
                    assert len(opaque) > size * size * 3 // 4, f"{title}, {size}: {len(opaque)} pixels are opaque"
                    light = [colours for colours in opaque if min(colours) > 200]
                    assert size * size // 50 < len(light) < size * size // 2, f"{title}, {size}: {len(light)} are light"
                assert sizes not in seen.values(), f"{title} looks like another state"
                seen[title] = sizes
            draw_pixels(seen)
        finally:
            tray.process.kill()
            tray.process.wait()


def log_and_bundle():
    """Both come by a button. A service that gives no log is asked once, and that is said."""
    program = pathlib.Path(WORK, "culvert")
    program.write_text("#!/bin/sh\nmkdir \"$5\" && echo '{}'\n", encoding="utf-8")
    program.chmod(0o755)
    home = pathlib.Path(WORK, "home")
    home.mkdir()
    with Case(statuses.status(), "--program", str(program), HOME=str(home)) as (service, window):
        window.click("Diagnostics")
        window.sees("The system asks the client, by resolved")
        window.click("Make debug bundle")
        window.sees(f"Debug bundle: {home}/culvert-debug-")
        assert [path.name[:14] for path in home.iterdir() if path.name.startswith("culvert")] == ["culvert-debug-"]
        state = service.answer
        service.answer = lambda asked: {"error": "unknown variant `log`"} if asked == "log" else {"status": state}
        window.click("Show log")
        window.sees("This service does not hand out its log.")
        service.answer = lambda asked: (
            {"log": ["first <b>line</b>", "second\u202eline"]} if asked == "log" else {"status": state})
        window.click("Show log")
        window.sees("Copy log")
        text = harness.wait("the log", lambda: window.find("Log of the service", "text"))
        shown = text.get_text_iface().get_text(0, -1)
        assert shown == "first <b>line</b>\nsecond\ufffdline", shown
        window.picture("log")


def german_and_dark():
    """The words are German and the theme is that of the settings."""
    settings(theme="dark")
    with Case(statuses.portal_away(), LANGUAGE="de") as (_, window):
        window.sees("Das Portal antwortet nicht", "Verweigert", "Nächster Versuch in ",
                    "Außerhalb der Zeiten der Richtlinie. Öffnet: 01.12.2026, 07:00")
        window.picture("german-dark")
        window.click("Diagnose")
        window.picture("german-dark-diagnostics")
    with Case(statuses.waiting(), LANGUAGE="de") as (_, window):
        window.sees("Vergleichen Sie diesen Code")
        window.picture("german-dark-code")
    settings()


def german_locale():
    """The locale of a German machine, made for this test if the machine has none."""
    locales = pathlib.Path(WORK, "locale")
    if not locales.exists():
        locales.mkdir()
        # It warns of what it does not know of the language, which is nothing that is needed.
        subprocess.run(["localedef", "-c", "-i", "de_DE", "-f", "UTF-8", locales / "de_DE.UTF-8"], check=False,
                       stderr=subprocess.DEVNULL)
        assert (locales / "de_DE.UTF-8").exists(), "no German locale can be made: run scripts/setup.sh desktop"
    return {"LOCPATH": str(locales), "LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"}


def messages(language):
    """The messages without values."""
    path = pathlib.Path(__file__).parents[1] / "core" / "locales" / f"{language}.ftl"
    pairs = (line.split(" = ", 1) for line in path.read_text(encoding="utf-8").splitlines() if " = " in line)
    return {text for name, text in pairs if not name.startswith(("#", " ")) and "{" not in text}


def assert_german(window, where):
    """Nothing that is shown is a message in English, or a text of GTK that was not translated."""
    english = messages("en") - messages("de") | {"Credits", "Legal", "Close", "Minimize", "Maximize", "Back",
                                                 "Search Shortcuts"}
    found = english & set(window.texts())
    assert not found, f"{where}: {found}"
    assert_named(window, where)


def every_page_is_german():
    """Each page and dialog on a German machine, in a window of the usual size and in the narrowest."""
    keyboard, german = keys.Keyboard(), german_locale()
    problems = ["the clock is off: timedatectl set-ntp true"]
    for width in [760, 360]:
        with Case(statuses.status(problems=problems), **german) as (_, window):
            window.sees("Customer database")
            keyboard.resize(width, 700)
            for page, text in [("Ressourcen", "Wiki"), ("Gateways", "berlin-1"), ("Diagnose", "Netzwerkprüfung")]:
                window.click(page)
                window.sees(text)
                assert_german(window, page)
                window.picture(f"german-{page.lower()}-{width}")
    for action, text in [("settings", "Mit der Sitzung starten"), ("shortcuts", "Netzwerkprüfung"),
                         ("about", "Zugang zu privaten Ressourcen"), ("sign-out", "Diesen Rechner abmelden?")]:
        with Case(statuses.status(), **german) as (_, window):
            window.sees("Customer database")
            activate(action)
            window.sees(text)
            assert_german(window, action)
            window.picture(f"german-{action}")
    for width in [760, 360]:
        with Case(statuses.off("signed_out"), **german) as (service, window):
            window.sees("Melden Sie sich an")
            keyboard.resize(width, 700)
            window.picture(f"german-signed-out-{width}")
            window.click("Anmelden")
            window.sees("Mit dem Browser", "Mit einem Token")
            assert_german(window, "sign-in")
            window.picture(f"german-sign-in-{width}")
            keyboard.press("Escape")
            window.sees_not("Mit einem Token")
            service.answer = statuses.waiting()
            window.sees("Vergleichen Sie diesen Code")
            assert_german(window, "code")
            window.picture(f"german-code-{width}")
            assert keyboard.width() == width, f"the code makes a window of {width} pixels {keyboard.width()} wide"


def tabbed(window, keyboard, most=40):
    """The controls that Tab goes through, until it comes back to one of them."""
    seen = []
    for _ in range(most):
        before = window.focused()
        keyboard.press("Tab")
        focused = harness.wait("another control", lambda: {window.focused()} - {None, before})
        if focused <= set(seen):
            break
        seen += focused
    return [name for _, name in seen]


def everything_by_keys():
    """Without a mouse: Tab comes to each control, and keys search, turn pages, open dialogs and close them."""
    keyboard = keys.Keyboard()
    state = statuses.status()
    wiki, payroll = (resource for resource in state["resources"] if resource["name"] in ["Wiki", "Payroll"])
    with Case({**state, "resources": [wiki, payroll]}) as (service, window):
        window.sees("wiki.corp.example", "payroll.corp.example")
        keyboard.press("Control_L+f")
        harness.wait("the search", lambda: "Search name or address" in (window.focused() or []))
        controls = tabbed(window, keyboard)
        print("  Tab:", ", ".join(controls))
        expected = ["Show", "Add Payroll to favourites", "Ask for access to Payroll", "Copy the address of Payroll", "Open Payroll",
                    "Add Wiki to favourites", "Copy the address of Wiki", "Open Wiki", "Resources", "Gateways", "Diagnostics",
                    "Main menu", "Disconnect"]
        assert [control for control in controls if control in expected] == expected, controls
        keyboard.press("Control_L+f")
        keyboard.write("wiki")
        window.sees_not("payroll.corp.example")
        keyboard.press("Escape")
        window.sees("payroll.corp.example")
        for page, text in [("3", "Network check"), ("2", "berlin-1"), ("1", "wiki.corp.example")]:
            keyboard.press(f"Alt_L+{page}")
            window.sees(text)
        for combination, text in [("Control_L+comma", "Start with the session"),
                                  ("Control_L+question", "Clear the search, or close a dialog")]:
            keyboard.press(combination)
            window.sees(text)
            count = len(keyboard.windows())
            assert count == 2, f"{count} windows"
            keyboard.press("Escape")
            harness.wait("one window", lambda: len(keyboard.windows()) == 1)
        keyboard.press("Control_L+d")
        harness.wait("the command", lambda: "down" in service.commands)
        keyboard.press("Control_L+w")
        harness.wait("no window", lambda: not keyboard.windows())


def another_program_is_told_nothing():
    """A program of another user at the socket gets no request, and the window says so."""
    if os.geteuid() != 0:
        return print("  skipped: it needs root to be another user")
    open_to_all = pathlib.Path(WORK, "open")
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    pathlib.Path(WORK).chmod(0o711)
    path = open_to_all / "socket"
    stranger = subprocess.Popen(
        ["/usr/bin/python3", "-c", f"""
import socket
listener = socket.socket(socket.AF_UNIX)
listener.bind({str(path)!r})
listener.listen()
while True:
    got = listener.accept()[0].recv(100)
    print(len(got), flush=True)
"""], user=65534, group=65534, extra_groups=[], stdout=subprocess.PIPE)
    try:
        harness.wait("the stranger's socket", path.exists)
        window = harness.Desktop(PROGRAM, str(path), PICTURES, (), {})
        window.sees("Another program answers", "A program of user 65534")
        window.picture("stranger")
        assert stranger.stdout.readline() == b"0\n", "something was sent to it"
        window.end()
    finally:
        stranger.kill()
        stranger.wait()


def a_real_service():
    """The program itself, signed out: it is found, and recovered from when it is started anew."""
    program = os.environ.get("CULVERT_BIN")
    if not program or os.geteuid() != 0:
        return print("  skipped: it needs root, and CULVERT_BIN with the program culvert")
    path = f"{WORK}/real.sock"
    command = [program, "client", "run", "--state-dir", f"{WORK}/state", "--status-socket", path, "--config", f"{WORK}/c.toml"]
    pathlib.Path(f"{WORK}/c.toml").write_text("", encoding="utf-8")
    log = open(f"{WORK}/client.log", "w", encoding="utf-8")
    service = subprocess.Popen(command, stderr=log)
    window = harness.Desktop(PROGRAM, path, PICTURES, ("--program", program), {})
    try:
        window.sees("Sign in to begin")
        service.terminate()
        service.wait(harness.LIMIT)
        window.sees("The service is not running")
        service = subprocess.Popen(command, stderr=log)
        harness.wait("the socket", pathlib.Path(path).exists)
        start = time.monotonic()
        window.sees("Sign in to begin")
        print(f"  recovered {time.monotonic() - start:.1f} s after the socket was there")
        window.click("Diagnostics")
        window.click("Check now")
        window.sees("in the way.", "Names (DNS)")
        window.picture("netcheck")
    finally:
        window.end()
        service.terminate()
        service.wait(harness.LIMIT)


TESTS = [the_window_shows_each_state, a_service_that_goes_takes_its_resources_along, commands_reach_the_service,
         a_long_refusal_is_shown_whole, favourites_stay, names_are_text, every_control_has_a_name, dialogs_are_named,
         names_are_switched_in_the_settings, access_that_ends_leaves_a_trace, access_that_ends_unseen_leaves_a_trace,
         a_resource_in_use_has_its_rate, signing_in, a_wrong_entry_of_the_sign_in, a_sign_in_of_another_window,
         a_browser_that_does_not_open, a_service_that_signs_nobody_in, an_older_service_is_polled, a_window_that_was_asleep_is_right,
         a_machine_that_slept, the_tray, the_tray_has_pixels, log_and_bundle, german_and_dark, every_page_is_german,
         everything_by_keys, another_program_is_told_nothing, a_real_service, ten_thousand_resources]

failed = 0
chosen = [test for test in TESTS if not sys.argv[4:] or test.__name__ in sys.argv[4:]]
for test in chosen:
    try:
        test()
        print(f"test {test.__name__} ... ok", flush=True)
    except Exception as error:  # noqa: BLE001  # Each test is to run.
        failed += 1
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
        print(f"test {test.__name__} ... FAILED in line {lines[-1]}\n  {type(error).__name__}: {error}", flush=True)
print(f"test result: {'FAILED' if failed else 'ok'}. {len(chosen) - failed} passed; {failed} failed")
sys.exit(1 if failed or not chosen else 0)
