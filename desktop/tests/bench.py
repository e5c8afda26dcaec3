"""Measures the window with 10,000 resources: opening, search, memory, and processor time while nothing and much changes."""

import random
import sys
import time
import warnings

sys.dont_write_bytecode = True
import harness  # noqa: E402
import statuses  # noqa: E402

PROGRAM, WORK, PICTURES = sys.argv[1:4]
RESOURCES = 10_000
# The time over which processor time is measured, and that before it in which a start ends, in seconds.
MEASURED_S, SETTLE_S = 30, 15
# The service tells at most ten lines a second.
LINES_A_SECOND, CHANGES_A_LINE = 10, 20
# Times that each search is done.
ROUNDS = 5


def share(window, seconds, act=lambda: None):
    """The part of a processor that the program uses while `act` is called again and again."""
    used, start = window.processor_s(), time.monotonic()
    number = 0
    while time.monotonic() - start < seconds:
        act()
        number += 1
        time.sleep(max(0, start + number / LINES_A_SECOND - time.monotonic()))
    return (window.processor_s() - used) / (time.monotonic() - start)


def changes(service, places):
    """Changes the state of as many of these resources as a line has."""
    resources = service.answer["resources"]

    def act():
        chosen = random.sample(places, min(CHANGES_A_LINE, len(places)))
        for place in chosen:
            granted = resources[place]["state"] == "granted"
            resources[place] = {**resources[place], "state": "idle" if granted else "granted"}
        service.push([resources[place] for place in chosen])
    return act


def search(window):
    """Milliseconds until a query has its result, and of a processor until the window is quiet: of one row, of all again."""
    entry, count = window.nearest("Search name or address"), window.nearest(f"{RESOURCES} of {RESOURCES}")

    def find(query, expected):
        start, used = time.monotonic(), window.processor_s()
        entry.get_editable_text_iface().set_text_contents(query)
        while harness.plain(count.get_name()) != expected:
            count.clear_cache()
        took = time.monotonic() - start
        time.sleep(1)
        return took * 1000, (window.processor_s() - used) * 1000
    return [find(*query) for _ in range(ROUNDS)
            for query in [("9999", f"1 of {RESOURCES}"), ("", f"{RESOURCES} of {RESOURCES}")]]


def median(values):
    return sorted(values)[len(values) // 2]


def told(name, value):
    print(f"{name:<58} {value}", flush=True)


def main():
    warnings.simplefilter("ignore")  # Of GObject's bindings: a name that is new in the next release.
    service = harness.Service(f"{WORK}/socket")
    service.start(statuses.many(RESOURCES))
    start = time.monotonic()
    window = harness.Desktop(PROGRAM, service.path, PICTURES, (), {})
    try:
        while not harness.wait("the window", window.application) or not window.nearest(f"{RESOURCES} of {RESOURCES}"):
            pass
        told("window open, as a screen reader finds it", f"{time.monotonic() - start:.2f} s")
        told("processor time until then", f"{window.processor_s():.2f} s")
        time.sleep(SETTLE_S)
        told("memory (VmRSS; of which RssAnon)", window.memory())
        told(f"processor time while nothing changes, over {MEASURED_S} s", f"{share(window, MEASURED_S):.2%}")
        found = search(window)
        for name, of_kind in [("search of one row", found[::2]), ("search cleared", found[1::2])]:
            took, used = (median(values) for values in zip(*of_kind))
            told(f"{name}, median of {ROUNDS} (until quiet, of a processor)", f"{took:.0f} ms ({used:.0f} ms)")
        time.sleep(SETTLE_S)
        everywhere = changes(service, range(RESOURCES))
        told("processor time at 200 changes a second, everywhere", f"{share(window, MEASURED_S, everywhere):.2%}")
        order = sorted(range(RESOURCES), key=lambda place: service.answer["resources"][place]["name"].lower())
        seen = changes(service, order[:CHANGES_A_LINE])
        told("processor time at 200 changes a second, rows that are seen", f"{share(window, MEASURED_S, seen):.2%}")
        told("memory after that", window.memory())
    finally:
        window.end()


main()
