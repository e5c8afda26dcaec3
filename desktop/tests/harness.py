"""What the test of the window stands on: a scripted service, the accessibility tree, and pictures."""

import itertools
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
LIMIT = int(os.environ.get("LIMIT_S", "60"))

# Milliseconds for an answer of the program, and for its first: by the default of 800 a busy one is clicked twice.
Atspi.set_timeout(LIMIT * 1000, LIMIT * 1000)

# Roles of what a person operates. Each must have a name.
CONTROLS = {"push button", "toggle button", "text", "password text", "entry", "combo box", "check box", "menu item",
            "radio button", "page tab", "list", "list box", "switch", "button", "tab"}


OLDER = {"error": "unknown variant `watch`, expected one of `status`, `up`, `down`"}
UNKNOWN = {"error": 'write a line such as {"schema_version":1,"request":"status"}', "code": "not_a_request"}
TOO_MANY = {"error": "4 programs of this user watch already, which is the limit: end one", "code": "too_many_watchers"}


def difference(before, after):
    """The changes from one state to the next, as a line of `watch` has them."""
    changes = {key: value for key, value in after.items() if key != "resources" and before.get(key) != value}
    known = {resource["id"]: resource for resource in before["resources"]}
    changed = [resource for resource in after["resources"] if known.pop(resource["id"], None) != resource]
    return {"changes": {**changes, "resources": changed}, "removed": list(known)}


class Service:
    """Answers at a socket as the service does, with the state that it was given, and tells watchers what changes. Requests
    that are no question for the state are kept in `commands`."""

    def __init__(self, path, no_watch=None):
        self.path, self.commands, self.asked, self.watched = path, [], 0, []
        self.no_watch = no_watch  # The answer to `watch` of a service that does not let it be watched.
        self.sequence, self.state = time.time_ns() // 1000, None
        self.changed, self.connections = threading.Condition(), set()
        self.listener = None

    @property
    def answer(self):
        return self.state

    @answer.setter
    def answer(self, state):
        with self.changed:
            self.state = state
            self.sequence += 1
            self.changed.notify_all()

    def start(self, answer):
        self.answer = answer
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.serve, args=(self.listener,), daemon=True).start()

    def stop(self):
        """Ends as a service that was killed: nobody is told."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)
        with self.changed:
            for connection in self.connections:
                connection.shutdown(socket.SHUT_RDWR)
            self.changed.notify_all()

    def serve(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection:
            try:
                line = connection.makefile("rb").readline()
                if not line:
                    return
                request = json.loads(line)["request"]
                if isinstance(request, dict) and "watch" in request:
                    self.watched.append(request["watch"].get("after"))
                    self.watch(connection)
                    return
                self.asked += request == "status"
                if request != "status":
                    self.commands.append(request)
                answer = self.state(request) if callable(self.state) else {"status": self.state}
                send(connection, answer)
            except OSError:
                pass

    def watch(self, connection):
        if self.no_watch or (callable(self.state) and "error" in self.state("status")):
            return send(connection, self.no_watch or self.state("status"))
        with self.changed:
            self.connections.add(connection)
        sent, before = None, None
        try:
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: self.sequence != sent or connection.fileno() < 0)
                    sent, now = self.sequence, self.state
                now = now("status") if callable(now) else {"status": now}
                if "error" in now:
                    return send(connection, now)
                now = now["status"]
                told = {"status": now} if before is None or "resources" not in now else difference(before, now)
                send(connection, {"schema_version": now["schema_version"], "sequence": sent, **told})
                before = now
        finally:
            with self.changed:
                self.connections.discard(connection)

    def push(self, resources):
        """Tells all watchers that these resources changed, and nothing else."""
        with self.changed:
            self.sequence += 1
            line = {"schema_version": 1, "sequence": self.sequence, "changes": {"resources": resources}}
            for connection in self.connections:
                send(connection, line)


def send(connection, message):
    connection.sendall(json.dumps(message).encode() + b"\n")


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

    def __init__(self, program, socket_path, pictures, options, variables):
        self.pictures = pictures
        self.process = subprocess.Popen([program, "--socket", socket_path, *options], env={**os.environ, **variables})

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

    def nearest(self, name, most=400):
        """The node with this name that is nearest to the root, among so many: lists below it take long to go through."""
        queue = [self.application()]
        for node in itertools.islice(iter(lambda: queue.pop(0) if queue else None, StopIteration), most):
            if node is None:
                return None
            if plain(node.get_name()) == name:
                return node
            queue.extend(node.get_child_at_index(number) for number in range(min(node.get_child_count(), 20)))
        return None

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

    def unnamed(self):
        """Controls that a screen reader can't name, or names by their class."""
        return [f"{node.get_role_name()} in {plain((node.get_parent().get_name() or '?'))}" for node in self.nodes()
                if node.get_role_name() in CONTROLS and not (node.get_name() or node.get_description())
                or node.get_role_name() == "toggle button" and node.get_name().startswith("Gtk")]

    def doubled(self):
        """Controls whose name is a text twice, which a screen reader reads out."""
        names = [plain(node.get_name()) for node in self.nodes() if node.get_role_name() in CONTROLS]
        return [name for name in names if name and name == " ".join([name[:len(name) // 2]] * 2)]

    def focused(self):
        """Role and name of the control that has the keys; None if none has."""
        for node in self.nodes():
            if node.get_state_set().contains(Atspi.StateType.FOCUSED):
                return node.get_role_name(), plain(node.get_name())
        return None

    def picture(self, name):
        time.sleep(0.6)  # Lets transitions end; no check depends on it.
        subprocess.run(["import", "-window", "root", f"{self.pictures}/{name}.png"], check=True)

    def processor_s(self):
        """Seconds of a processor that the program has used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        whole, own = (int(fields[name].split()[0]) / 1024 for name in ["VmRSS", "RssAnon"])
        return f"{whole:.0f} MB; {own:.0f} MB"

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LIMIT)
