"""Operates the window by its accessibility tree (AT-SPI), against a scripted service."""

import json
import os
import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import harness  # noqa: E402
import statuses  # noqa: E402

PROGRAM, WORK, PICTURES = sys.argv[1:4]


class Case:
    """A window with its service, which is removed afterwards."""

    number = 0

    def __init__(self, answer, *options, **variables):
        Case.number += 1
        self.socket = f"{WORK}/socket-{Case.number}"
        self.service = harness.Service(self.socket)
        if answer is not None:
            self.service.start(answer)
        self.window = harness.Desktop(PROGRAM, ["--socket", self.socket, *options], PICTURES, variables)

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
        window.sees("Connected to portal.example.com", "Customer database", "Granted", "A condition of the policy")
        window.picture("connected")
        service.answer = statuses.portal_away()
        window.sees("The portal does not answer", "Next attempt in 8 seconds", "Customer database")
        window.picture("portal-away")
        service.answer = statuses.off("refused", {"code": "denied", "text": "revoked"})
        window.sees("The portal refuses this computer", "An administrator has revoked this computer.")
        window.sees_not("Customer database")
        window.picture("refused")
        service.answer = {"schema_version": 2}
        window.sees("The service has another version")
        service.answer = lambda _: {"error": "schema_version 1 is not spoken here, but 3"}
        window.sees("It speaks form 3")
        service.stop()
        window.sees("The service is not running")


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
        service.answer = lambda asked: (
            {"status": statuses.off("down")} if asked == "status" else {"error": "ada is no member of culvert"})
        window.sees("Disconnected")
        window.click("Connect")
        window.sees("The service refuses: ada is no member of culvert")


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


def every_control_has_a_name():
    """On each page."""
    with Case(statuses.status(problems=["the clock is off: timedatectl set-ntp true"])) as (_, window):
        window.sees("Customer database")
        for page in ["Resources", "Gateways", "Diagnostics"]:
            window.click(page)
            window.sees({"Resources": "Wiki", "Gateways": "berlin-1", "Diagnostics": "Network check"}[page])
            assert not window.unnamed(), f"on page {page}: {window.unnamed()}"
            window.picture(page.lower())


def every_control_of_dialogs_has_a_name():
    """Of each dialog of the menu, while it is open."""
    dialogs = [("Settings", "Start with the session"), ("Keyboard shortcuts", "Disconnect"), ("About Culvert", "0.1.0"),
               ("Sign out", "Sign out of this computer?")]
    for dialog, shown in dialogs:
        with Case(statuses.status()) as (_, window):
            window.sees("Customer database")
            window.click("Main menu")
            assert not window.unnamed(), f"in the menu: {window.unnamed()}"
            window.click(dialog)
            window.sees(shown)
            assert not window.unnamed(), f"in {dialog}: {window.unnamed()}"
            window.picture(f"dialog-{dialog.lower().replace(' ', '-')}")


def ten_thousand_resources():
    """The window opens, and uses little memory and almost no processor while nothing changes."""
    with Case(statuses.many(10_000)) as (service, window):
        window.sees("10000 of 10000")
        window.picture("many")
        asked = service.asked
        before, start = window.processor_s(), time.monotonic()
        harness.wait("three more questions", lambda: service.asked >= asked + 3)
        share = (window.processor_s() - before) / (time.monotonic() - start)
        print(f"  10,000 resources: {window.memory_mb():.0f} MB, {share:.1%} of a processor while nothing changes")


def settings(**values):
    path = pathlib.Path(os.environ["XDG_CONFIG_HOME"], "culvert-desktop", "settings.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")


# A program in the place of `culvert`: it tells a code, and ends as the file beside it says.
SIGN_IN = """#!/bin/sh
url=https://portal.example.com/device
echo '{"sign_in":{"user_code":"BCDF-GHJK","url":"'$url'","url_with_code":"'$url'?code=BCDF-GHJK","expires_in_s":600}}'
while [ ! -e "$0.end" ]; do sleep 0.1; done
. "$0.end"
"""


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


def signing_in():
    """The browser opens. The code is shown to be compared; an end without success is said, and a success shows the service's state."""
    program = pathlib.Path(WORK, "sign-in")
    program.write_text(SIGN_IN, encoding="utf-8")
    program.chmod(0o755)
    end = pathlib.Path(f"{program}.end")
    settings(portal="https://portal.example.com")
    opened = browser()
    with Case(statuses.off("signed_out"), "--program", str(program)) as (service, window):
        window.click("Sign in")
        window.sees("With the browser", "With a token")
        assert not window.unnamed(), window.unnamed()
        window.picture("sign-in")
        window.click("Sign in with the browser")
        window.sees("BCDF-GHJK", "Compare this code", "Valid for")
        window.picture("code")
        harness.wait("the browser", lambda: opened.exists() and opened.read_text(encoding="utf-8").split())
        url = "https://portal.example.com/device?code=BCDF-GHJK"
        assert opened.read_text(encoding="utf-8").split() == [url], opened.read_text(encoding="utf-8")
        end.write_text("echo 'culvert: the sign-in was denied in the console' >&2; exit 5", encoding="utf-8")
        window.sees("Signing in failed: the sign-in was denied in the console", "Sign in to begin")
        end.unlink()
        window.click("Sign in")
        window.click("Sign in with the browser")
        window.sees("BCDF-GHJK")
        service.answer = statuses.status()
        end.write_text("echo '{}'", encoding="utf-8")
        window.sees("Connected to portal.example.com")


def german_and_dark():
    """The words are German and the theme is that of the settings."""
    settings(theme="dark")
    with Case(statuses.portal_away(), LANGUAGE="de") as (_, window):
        window.sees("Das Portal antwortet nicht", "Verweigert", "Nächster Versuch in 8 Sekunden")
        window.picture("german-dark")
    settings()


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
        window = harness.Desktop(PROGRAM, ["--socket", str(path)], PICTURES)
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
    window = harness.Desktop(PROGRAM, ["--socket", path, "--program", program], PICTURES)
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


TESTS = [the_window_shows_each_state, commands_reach_the_service, favourites_stay, names_are_text,
         every_control_has_a_name, every_control_of_dialogs_has_a_name, signing_in, german_and_dark, another_program_is_told_nothing, a_real_service,
         ten_thousand_resources]

failed = 0
chosen = [test for test in TESTS if not sys.argv[4:] or test.__name__ in sys.argv[4:]]
for test in chosen:
    try:
        test()
        print(f"test {test.__name__} ... ok", flush=True)
    except Exception as error:  # noqa: BLE001  # Each test is to run.
        failed += 1
        print(f"test {test.__name__} ... FAILED\n  {type(error).__name__}: {error}", flush=True)
print(f"test result: {'FAILED' if failed else 'ok'}. {len(chosen) - failed} passed; {failed} failed")
sys.exit(1 if failed or not chosen else 0)
