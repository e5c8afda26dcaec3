"""States of the service, in the form of docs/socket.md, for the test of the window."""

RESOURCES = [
    ("Wiki", "wiki.corp.example", ["tcp:80,443"], "granted", None),
    ("Customer database", "db.corp.example", ["tcp:5432"], "granted", None),
    ("Build servers", "10.20.0.0/16", ["any"], "idle", None),
    ("Payroll", "payroll.corp.example", ["tcp:443"], "denied",
     ("condition_not_met", "now is outside of mon-fri 08:00-18:00 Europe/Berlin, which opens at 2026-12-01T07:00:00Z")),
    ("Source code", "git.corp.example", ["tcp:443"], "denied", ("condition_not_met", "the client is not verified")),
    ("Ticket system", "tickets.corp.example", ["tcp:443"], "asking", None),
    ("Jump host", "10.20.0.9", ["tcp:22"], "denied", ("no_gateway", "no gateway of the site is connected")),
    ("<b>Markup</b> & more", "markup.corp.example", ["tcp:443"], "idle", None),
    ("\u202eexe.elbisrever", "rtl.corp.example", ["tcp:443"], "idle", None),
    ("שרת הקבצים", "files.corp.example", ["tcp:443"], "idle", None),
]


def resource(number, name, target, allow, state, why):
    granted = state == "granted"
    return {
        "id": f"res_{number:026}", "name": name, "target": target, "site": "site_1", "state": state,
        "why": why and {"code": why[0], "text": why[1], "ago_ms": 4000},
        "gateway": "gw_1" if granted else None, "grant": "gra_1" if granted else None,
        "expires": None, "renewing": False, "held_packets": 0, "allow": allow,
    }


GATEWAYS = [
    {"id": "gw_1", "name": "berlin-1", "path": "direct", "endpoint": "192.0.2.20:51820", "round_trip_us": 4210,
     "handshake_age_ms": 9000, "heard_ms_ago": 20, "silent_for_ms": None, "rx_bytes_per_s": 412000,
     "tx_bytes_per_s": 21000, "resources": []},
    {"id": "gw_2", "name": "lisbon-1", "path": "relayed", "relay_name": "relay-frankfurt", "by_tls": True,
     "why": "UDP gets no answer", "endpoint": None, "round_trip_us": 61300, "handshake_age_ms": 40000,
     "heard_ms_ago": 9000, "silent_for_ms": 9000, "rx_bytes_per_s": 0, "tx_bytes_per_s": 120, "resources": []},
]


def service(state, signs_in=True, **changes):
    return {"control": "commands", "state": state, "trouble": None, "signs_in": signs_in, **changes}


def status(**changes):
    """A client that is connected, with `changes`."""
    state = {
        "schema_version": 1, "version": "0.1.0", "name": "laptop", "machine": "m1", "client": "cli_1",
        "portal_url": "https://portal.example.com", "service": service("up"),
        "portal": {"state": "connected", "state_for_ms": 8000, "next_attempt_in_ms": None, "last_error": None,
                   "attempts": 1, "sessions": 1, "clock_ahead_ms": 0},
        "ready": True, "not_ready_because": None,
        "resources": [resource(number, *rest) for number, rest in enumerate(RESOURCES)],
        "gateways": GATEWAYS, "dns": {"control": {"mode": "resolved", "applied": True}}, "problems": [],
    }
    state.update(changes)
    return state


def off(service_state, trouble=None):
    """A client that is not to be connected."""
    return status(
        service=service(service_state, trouble=trouble),
        portal={"state": "off", "sessions": 0, "state_for_ms": 0, "attempts": 0},
        ready=False, resources=[], gateways=[], portal_url="" if service_state == "signed_out" else
        "https://portal.example.com",
    )


PORTAL = "https://portal.example.com"


def signing_in(state, **more):
    """A client that is signed out, with a sign-in in this state."""
    return {**off("signed_out"), "service": service("signed_out", sign_in={"state": state, "portal": PORTAL, **more})}


def waiting():
    return signing_in("waiting", url=f"{PORTAL}/device", url_complete=f"{PORTAL}/device?code=BCDF-GHJK", code="BCDF-GHJK",
                      expires_in_s=600)


def failed(code):
    return signing_in("failed", code_of_failure=code, text="in words")


def portal_away():
    return status(portal={"state": "waiting", "sessions": 1, "state_for_ms": 5000, "attempts": 4,
                          "next_attempt_in_ms": 600_000, "last_error": "connect: no route to host"})


def many(count):
    """A client with this many resources. Its gateway answers: a silent one has seconds that are counted."""
    return status(gateways=GATEWAYS[:1], resources=[
        resource(number, f"Service {number} of the department", f"host-{number}.corp.example", ["tcp:443"], "idle", None)
        for number in range(count)
    ])
