//! The states of things, as lists and pages show them.

use super::view::Cell;
use culvert_portal_base::now;
use culvert_portal_service::DEVICE_HEARD_MS;
use culvert_wire::Timestamp;
use culvert_wire::api::{Client, Gateway, GatewaySession, Policy, Relay, RelaySession, Token};

/// The state of a policy.
pub(super) fn policy(policy: &Policy) -> Cell {
    match policy.disabled {
        true => Cell::warn("disabled"),
        false if !policy.warnings.is_empty() => Cell::warn("never allows"),
        false => Cell::good("enabled"),
    }
}

/// The state of a client between portal and machine.
pub(super) fn connected(is_connected: bool) -> Cell {
    match is_connected {
        true => Cell::good("connected"),
        false => Cell::plain("away"),
    }
}

/// The same of any client: gateways hear a plain WireGuard device.
pub(super) fn presence(client: &Client, is_connected: bool) -> Cell {
    match client.gateways.is_empty() {
        true => connected(is_connected),
        false => heard(client.last_seen, now()),
    }
}

/// A plain WireGuard device has no session: it was heard by a gateway lately, or was not.
fn heard(last_seen: Option<Timestamp>, now: Timestamp) -> Cell {
    let Some(at) = last_seen else {
        return Cell::plain("not heard yet");
    };
    match now.unix_ms() < at.unix_ms().saturating_add(DEVICE_HEARD_MS) {
        true => Cell::good("heard"),
        false => Cell::plain("not heard"),
    }
}

/// The software of a client.
pub(super) fn software(client: &Client) -> Cell {
    match (client.gateways.is_empty(), &client.software) {
        (false, _) => Cell::text("WireGuard device"),
        (true, Some(software)) => Cell::text(software),
        (true, None) => Cell::text("–"),
    }
}

/// The state of a client by the word of administrators.
pub(super) fn client(client: &Client) -> Cell {
    match (client.revoked, client.verified) {
        (Some(_), _) => Cell::bad("revoked"),
        (None, Some(_)) => Cell::good("verified"),
        (None, None) => Cell::plain("not verified"),
    }
}

/// The state of a gateway: connected, and accepting clients. `is_required`: gateways have to be verified.
pub(super) fn gateway(
    gateway: &Gateway,
    session: Option<&GatewaySession>,
    is_required: bool,
) -> Cell {
    match (gateway.revoked, session) {
        (Some(_), _) => Cell::bad("revoked"),
        _ if is_required && gateway.verified.is_none() => Cell::warn("waits to be verified"),
        (None, None) if gateway.draining => Cell::warn("not connected, draining"),
        (None, None) => Cell::plain("not connected"),
        (None, Some(session)) if session.draining => {
            Cell::warn(format_args!("draining, {} clients left", session.clients))
        }
        (None, Some(_)) => Cell::good("accepting clients"),
    }
}

/// The state of a token.
pub(super) fn token(token: &Token) -> Cell {
    let is_over = token.expires.is_some_and(|expires| expires <= now());
    match (token.revoked, token.used) {
        (Some(_), _) => Cell::bad("revoked"),
        (None, _) if is_over => Cell::bad("expired"),
        (None, Some(_)) => Cell::plain("used"),
        (None, None) if token.one_time => Cell::good("good for one machine"),
        (None, None) => Cell::good("good"),
    }
}

/// The state of a relay: connected, and accepting ends.
pub(super) fn relay(relay: &Relay, session: Option<&RelaySession>) -> Cell {
    match (relay.revoked, session) {
        (Some(_), _) => Cell::bad("revoked"),
        (None, None) if relay.draining => Cell::warn("not connected, draining"),
        (None, None) => Cell::plain("not connected"),
        (None, Some(session)) if session.draining => Cell::warn("draining"),
        (None, Some(_)) => Cell::good("connected"),
    }
}

/// The load of a relay at this moment.
pub(super) fn relay_load(session: &RelaySession) -> String {
    format!(
        "{} %, {}",
        session.processor_permille / 10,
        rate(session.rate_bytes_per_s)
    )
}

/// The load of a gateway at this moment.
pub(super) fn load(session: &GatewaySession) -> String {
    format!(
        "{} %, {}, {} clients, {} flows",
        session.processor_permille / 10,
        rate(session.rate_bytes_per_s),
        session.clients,
        session.flows
    )
}

/// A rate as people read it.
pub(super) fn rate(bytes_per_s: u64) -> String {
    const UNITS: [&str; 4] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"];
    let mut rate = bytes_per_s.saturating_mul(8);
    let mut unit = 0;
    // Up to four digits, which say enough.
    while rate >= 10_000 && unit + 1 < UNITS.len() {
        rate /= 1_000;
        unit += 1;
    }
    format!("{rate} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn a_rate_has_at_most_four_digits() {
        for (bytes_per_s, text) in [
            (0, "0 bit/s"),
            (1_249, "9992 bit/s"),
            (1_250, "10 kbit/s"),
            (125_000_000, "1000 Mbit/s"),
            (5_000_000_000, "40 Gbit/s"),
        ] {
            assert_eq!(rate(bytes_per_s), text);
        }
    }
}
