"""Operates the window by its accessibility tree (AT-SPI), against a scripted service."""

import sys
import time

sys.dont_write_bytecode = True
import harness  # noqa: E402
import statuses  # noqa: E402

PROGRAM, WORK, PICTURES = sys.argv[1:4]


class Case:
    """A window with its service, which is removed afterwards."""

    number = 0

    def __init__(self, answer, *options):
        Case.number += 1
        self.socket = f"{WORK}/socket-{Case.number}"
        self.service = harness.Service(self.socket)
        if answer is not None:
            self.service.start(answer)
        self.window = harness.Desktop(PROGRAM, self.socket, PICTURES, *options)

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


def ten_thousand_resources():
    """The window opens, and uses little memory and almost no processor while nothing changes."""
    with Case(statuses.many(10_000)) as (service, window):
        window.sees("10000 of 10000")
        window.picture("many")
        asked = service.asked
        before, start = window.processor_s(), time.monotonic()
        harness.wait("five more questions", lambda: service.asked >= asked + 5)
        share = (window.processor_s() - before) / (time.monotonic() - start)
        print(f"  10,000 resources: {window.memory_mb():.0f} MB, {share:.1%} of a processor while nothing changes")


TESTS = [the_window_shows_each_state, commands_reach_the_service, favourites_stay, names_are_text,
         every_control_has_a_name, ten_thousand_resources]

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
