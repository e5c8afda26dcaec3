"""Operates a window for a test that runs elsewhere, as a screen reader does.

It answers requests at a Unix socket, a line of JSON each: {"sees": ["Connected"]} is answered by {"ok": null}, or by
{"error": "…"}. One connection is served; with its end the window ends.

usage: drive.py SOCKET PICTURES PROGRAM [OPTION…]
"""

import json
import os
import re
import socket
import sys

sys.dont_write_bytecode = True
import harness  # noqa: E402


def find(window, pattern):
    """The first text that has the pattern."""
    found = harness.wait(f"a text like {pattern!r}", lambda: [t for t in window.texts() if re.search(pattern, t)])
    return re.search(pattern, found[0]).group()


REQUESTS = {
    "sees": lambda window, texts: window.sees(*texts),
    "sees_not": lambda window, text: window.sees_not(text),
    "click": lambda window, name: window.click(name),
    "type": lambda window, both: window.type(*both),
    "find": find,
    "picture": lambda window, name: window.picture(name),
    "unnamed": lambda window, _: window.unnamed(),
    "texts": lambda window, _: window.texts(),
}


def answer(window, line):
    [(what, value)] = json.loads(line).items()
    try:
        return {"ok": REQUESTS[what](window, value)}
    except Exception as error:  # noqa: BLE001  # Each is told to the test.
        return {"error": f"{type(error).__name__}: {error}; the window shows {window.texts()}"}


def main():
    path, pictures, program, *options = sys.argv[1:]
    os.makedirs(pictures, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    window = harness.Desktop(program, options, pictures)
    try:
        connection, _ = listener.accept()
        with connection:
            for line in connection.makefile("rb"):
                connection.sendall(json.dumps(answer(window, line)).encode() + b"\n")
    finally:
        window.end()


main()
