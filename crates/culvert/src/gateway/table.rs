//! The gateway's state for people.

use crate::status::table::{
    cipher, columns, drops, in_round_trip, line, portal, rate, sandbox, span,
};
use culvert_gateway::status::{ClientStatus, FirewallState, NameStatus, RelayStatus, Status};
use std::fmt::Display;

/// The maximum number of grants of one client that are written out.
const GRANTS_SHOWN: usize = 8;

/// The state as text.
pub(super) fn render(status: &Status) -> String {
    let mut text = String::new();
    machine(status, &mut text);
    clients(status, &mut text);
    names(status, &mut text);
    drops(&status.drops, &mut text);
    if !status.problems.is_empty() {
        text.push_str("\nPROBLEMS\n");
        for problem in &status.problems {
            line(&mut text, format_args!("  {problem}"));
        }
    }
    text
}

fn machine(status: &Status, text: &mut String) {
    let gateway = status.gateway.map(|gateway| format!(" ({gateway})"));
    let gateway = gateway.unwrap_or_default();
    line(text, format_args!("gateway    {}{gateway}", status.name));
    match (&status.site_name, status.site) {
        (Some(name), Some(site)) => line(text, format_args!("site       {name} ({site})")),
        (None, Some(site)) => line(text, format_args!("site       {site}")),
        (_, None) => {}
    }
    line(text, format_args!("key        {}", status.public_key));
    line(text, format_args!("           {}", status.fingerprint));
    let session = portal(&status.portal);
    line(
        text,
        format_args!("portal     {}: {session}", status.portal_url),
    );
    let not_ready = status.not_ready_because.as_ref();
    let readiness = not_ready.map_or_else(|| "ready".to_owned(), |why| format!("not ready: {why}"));
    line(text, format_args!("clients    {readiness}"));
    if let (Some(ipv4), Some(ipv6)) = (status.ipv4, status.ipv6) {
        let interface = &status.interface;
        line(text, format_args!("tunnel     {interface}: {ipv4}, {ipv6}"));
    }
    let candidates: Vec<String> = status.candidates.iter().map(ToString::to_string).collect();
    if !candidates.is_empty() {
        line(text, format_args!("reached    {}", candidates.join(", ")));
    }
    for relay in &status.relays {
        line(text, format_args!("relay      {}", relay_line(relay)));
    }
    line(text, format_args!("firewall   {}", firewall(status)));
    let load = status.load;
    line(
        text,
        format_args!(
            "load       {} flows, {}, processors {}.{} %",
            load.flows,
            rate(load.bytes_per_s),
            load.processor_permille / 10,
            load.processor_permille % 10
        ),
    );
    sandbox(status.sandbox.as_ref(), text);
    let running = span(status.running_for_ms);
    line(
        text,
        format_args!("running    {running}, culvert {}", status.version),
    );
}

fn relay_line(relay: &RelayStatus) -> String {
    let state = match relay.registered {
        true => "registered",
        false => "not registered yet",
    };
    let round_trip = in_round_trip(relay.round_trip_us);
    if relay.by_tls {
        // The address is of this host.
        let name = &relay.name;
        return format!("{name}: {state} by TLS{round_trip}, UDP gets no answer");
    }
    format!("{} ({}): {state}{round_trip}", relay.name, relay.address)
}

fn firewall(status: &Status) -> String {
    let firewall = &status.firewall;
    let state = match firewall.state {
        FirewallState::Absent => "not installed yet",
        FirewallState::Intact => "intact",
        FirewallState::Lost => "taken away by another program, see PROBLEMS",
    };
    let restored = match firewall.restored {
        0 => String::new(),
        1 => ", put back once".to_owned(),
        times => format!(", put back {times} times"),
    };
    format!("inet {}: {state}{restored}", firewall.table)
}

fn clients(status: &Status, text: &mut String) {
    text.push_str("\nCLIENTS\n");
    if status.clients.is_empty() {
        text.push_str("  none holds a grant\n");
        return;
    }
    let rows = status.clients.iter().map(|client| {
        vec![
            client.id.to_string(),
            match &client.relay_name {
                Some(relay) => format!("relayed by {relay}"),
                None => or_dash(client.endpoint),
            },
            match client.handshake_age_ms {
                Some(age_ms) => format!("handshake {} ago", span(age_ms)),
                None => "no handshake yet".to_owned(),
            },
            cipher(client.cipher).to_owned(),
            format!(
                "in {}, out {}",
                rate(client.rx_bytes_per_s),
                rate(client.tx_bytes_per_s)
            ),
            grants(client, status),
        ]
    });
    columns(rows.collect(), text);
    more(status.clients.len(), status.client_count, text);
    if status.waiting_grants > 0 {
        let waiting = status.waiting_grants;
        line(text, format_args!("  waiting for the DNS: {waiting}"));
    }
}

/// The resources that a client may reach, with the time that is left.
fn grants(client: &ClientStatus, status: &Status) -> String {
    let shown = client.grants.iter().take(GRANTS_SHOWN);
    let mut parts: Vec<String> = shown
        .map(|grant| {
            let left_ms = grant.expires.unix_ms().saturating_sub(status.at.unix_ms());
            format!("{} ({} left)", grant.target, span(left_ms))
        })
        .collect();
    let others = client.grant_count.saturating_sub(parts.len());
    if others > 0 {
        parts.push(format!("{others} more"));
    }
    parts.join(", ")
}

fn names(status: &Status, text: &mut String) {
    if status.names.is_empty() {
        return;
    }
    text.push_str("\nNAMES\n");
    let rows = status.names.iter().map(|name| {
        vec![
            name.name.clone(),
            or_dash(name.ipv4),
            or_dash(name.ipv6),
            answer(name).to_owned(),
        ]
    });
    columns(rows.collect(), text);
    more(status.names.len(), status.name_count, text);
}

const fn answer(name: &NameStatus) -> &'static str {
    match (name.answered, name.ipv4, name.ipv6) {
        (false, ..) => "the DNS has not answered",
        (true, None, None) => "no address that a resource may have",
        (true, ..) => "",
    }
}

/// A list that is cut says so.
fn more(shown: usize, of: usize, text: &mut String) {
    if shown < of {
        line(text, format_args!("  … and {} more", of - shown));
    }
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
pub(super) mod tests;
