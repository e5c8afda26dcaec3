"""What the test of the window stands on: a scripted service, the accessibility tree, and pictures."""

import json
import os
import re
import socket
import subprocess
import threading
import time

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi  # noqa: E402

# A generous limit for everything that is waited for, in seconds: conditions end a wait, not this.
LIMIT = 60

# Roles of what a person operates. Each must have a name.
CONTROLS = {"push button", "toggle button", "text", "password text", "entry", "combo box", "check box", "menu item",
            "radio button", "page tab", "list", "list box", "switch", "button", "tab"}


class Service:
    """Answers at a socket as the service does, with the state that it was given. Requests that are no question for the
    state are kept in `commands`."""

    def __init__(self, path):
        self.path, self.commands, self.asked = path, [], 0
        self.answer = self.listener = None

    def start(self, answer):
        self.answer = answer
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.serve, args=(self.listener,), daemon=True).start()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)

    def serve(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                request = connection.makefile("rb").readline()
                if not request:
                    continue
                asked = json.loads(request)["request"]
                self.asked += 1
                if asked != "status":
                    self.commands.append(asked)
                answer = self.answer(asked) if callable(self.answer) else {"status": self.answer}
                try:
                    connection.sendall(json.dumps(answer).encode() + b"\n")
                except OSError:
                    pass


def plain(text):
    return re.sub("[\u2066-\u2069]", "", text or "")


def wait(what, condition):
    """Waits until `condition` has a value, and returns it."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            found = condition()
        except gi.repository.GLib.Error:
            found = None  # The tree changed while it was read.
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {LIMIT} s in vain for: {what}")
        time.sleep(0.05)


class Desktop:
    """The program under test, as a screen reader sees it."""

    def __init__(self, program, options, pictures, variables=None):
        self.pictures = pictures
        self.process = subprocess.Popen([program, *options], env={**os.environ, **(variables or {})})

    def application(self):
        for number in range(Atspi.get_desktop(0).get_child_count()):
            child = Atspi.get_desktop(0).get_child_at_index(number)
            if child and child.get_process_id() == self.process.pid:
                return child
        return None

    def nodes(self, node=None, hidden=False):
        """Every node that is shown."""
        node = node or self.application()
        if node is None:
            return
        for number in range(node.get_child_count()):
            child = node.get_child_at_index(number)
            if child is None:
                continue
            child.clear_cache_single() if hasattr(child, "clear_cache_single") else child.clear_cache()
            if hidden or child.get_state_set().contains(Atspi.StateType.VISIBLE):
                yield child
                yield from self.nodes(child, hidden)

    def texts(self):
        return [plain(node.get_name()) for node in self.nodes() if node.get_name()]

    def find(self, name, role=None):
        for node in self.nodes():
            if plain(node.get_name()) == name and (role is None or node.get_role_name() == role):
                return node
        return None

    def sees(self, *texts):
        for text in texts:
            wait(f"the text {text!r}", lambda: any(text in seen for seen in self.texts()))

    def sees_not(self, text):
        wait(f"no text {text!r}", lambda: not any(text in seen for seen in self.texts()))

    def click(self, name):
        def act():
            for node in self.nodes():
                if plain(node.get_name()) == name and node.get_action_iface() and node.get_n_actions() > 0:
                    states = node.get_state_set()
                    if states.contains(Atspi.StateType.SENSITIVE):
                        return node.do_action(0)
            return False
        wait(f"a control {name!r} that can be used", act)

    def type(self, name, text):
        """Replaces the text of an entry."""
        def act():
            for node in self.nodes():
                if plain(node.get_name()) == name and node.get_editable_text_iface():
                    return node.set_text_contents(text)
            return False
        wait(f"an entry {name!r}", act)

    def unnamed(self):
        """Controls that a screen reader can't name."""
        return [f"{node.get_role_name()} in {plain((node.get_parent().get_name() or '?'))}" for node in self.nodes()
                if node.get_role_name() in CONTROLS and not (node.get_name() or node.get_description())]

    def picture(self, name):
        time.sleep(0.6)  # Lets transitions end; no check depends on it.
        subprocess.run(["import", "-window", "root", f"{self.pictures}/{name}.png"], check=True)

    def processor_s(self):
        """Seconds of a processor that the program has used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LIMIT)
