"""Measures the window with 10,000 resources: opening, search, memory, and processor time while nothing and much changes."""

import random
import sys
import time

sys.dont_write_bytecode = True
import harness  # noqa: E402
import statuses  # noqa: E402

PROGRAM, WORK, PICTURES = sys.argv[1:4]
RESOURCES = 10_000
# The time over which processor time is measured, and that before it in which a start ends, in seconds.
MEASURED_S, SETTLE_S = 30, 15
# The service tells at most ten lines a second.
LINES_A_SECOND, CHANGES_A_LINE = 10, 20


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
    """Milliseconds until a query has its result: of one row, of all again."""
    entry = next(node for node in window.nodes() if harness.plain(node.get_name()) == "Search name or address")
    count = next(node for node in window.nodes() if harness.plain(node.get_name()) == f"{RESOURCES} of {RESOURCES}")

    def find(query, expected):
        start = time.monotonic()
        entry.get_editable_text_iface().set_text_contents(query)
        while harness.plain(count.get_name()) != expected:
            count.clear_cache_single()
        return (time.monotonic() - start) * 1000
    return [(find("9999", f"1 of {RESOURCES}"), find("", f"{RESOURCES} of {RESOURCES}")) for _ in range(5)]


def told(name, value):
    print(f"{name:<58} {value}", flush=True)


def main():
    service = harness.Service(f"{WORK}/socket")
    service.start(statuses.many(RESOURCES))
    start = time.monotonic()
    window = harness.Desktop(PROGRAM, service.path, PICTURES, (), {})
    try:
        window.sees(f"{RESOURCES} of {RESOURCES}")
        told("window open, as a screen reader finds it", f"{time.monotonic() - start:.2f} s")
        start = time.monotonic()
        window.sees(f"{RESOURCES} of {RESOURCES}")
        told("of which the screen reader's look at the window takes", f"{time.monotonic() - start:.2f} s")
        time.sleep(SETTLE_S)
        told("memory (VmRSS; of which RssAnon)", window.memory())
        told(f"processor time while nothing changes, over {MEASURED_S} s", f"{share(window, MEASURED_S):.2%}")
        found = search(window)
        told("search of one row, worst of 5", f"{max(one for one, _ in found):.0f} ms")
        told("search cleared, worst of 5", f"{max(every for _, every in found):.0f} ms")
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
