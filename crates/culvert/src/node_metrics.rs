//! Metrics that clients and gateways have alike.

use crate::exposition::Exposition;
use culvert_control::{CounterStatus, DropStatus, PortalState, PortalStatus};

/// The session with the portal.
pub(crate) fn portal(portal: &PortalStatus, text: &mut Exposition<'_>) {
    let is_connected = portal.state == PortalState::Connected;
    text.gauge("portal_connected", "Whether the portal has welcomed it.");
    text.sample("portal_connected", &[], u8::from(is_connected));
    text.gauge(
        "portal_state_seconds",
        "Since the session with the portal was opened, or lost.",
    );
    text.seconds("portal_state_seconds", &[], portal.state_for_ms);
    text.counter("portal_attempts", "Attempts to connect to the portal.");
    text.sample("portal_attempts_total", &[], portal.attempts);
    text.counter("portal_sessions", "Sessions that came about.");
    text.sample("portal_sessions_total", &[], portal.sessions);
}

/// Counters of events; `help` says what they happened to.
pub(crate) fn events(counters: &[CounterStatus], help: &str, text: &mut Exposition<'_>) {
    text.counter("events", help);
    for counter in counters {
        let labels = [("event", counter.name.as_str())];
        text.sample("events_total", &labels, counter.count);
    }
}

/// Counters of dropped packets.
pub(crate) fn drops(drops: &[DropStatus], text: &mut Exposition<'_>) {
    text.counter(
        "drops",
        "Packets, records and datagrams that were not passed on.",
    );
    for drop in drops {
        let labels = [("stage", drop.stage.as_str()), ("reason", &drop.reason)];
        text.sample("drops_total", &labels, drop.count);
    }
}
